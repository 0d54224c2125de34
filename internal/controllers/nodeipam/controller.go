// Package nodeipam gives each node a range of addresses for its pods, a part
// of the cluster's range: spec.podCIDR, and podCIDRs for each family.
//
// Use: New(options, Config{Cluster: ranges}).Run(ctx).
//
// Simulated nodes do without when ranges run short, since their pods' addresses
// lead nowhere: one range in eight is kept for other nodes.
//
// Concurrency: one worker, for what is taken is one question; it writes to some
// of many nodes at a time. Two copies of the loop give no range twice: each
// writes down in an object that both read what it is about to give to whom
// (promises), in a write that fails when the other has written since, and only
// then gives it.
//
//	read the promises -> list the nodes -> plan -> promise -> give -> forget
//
// Failure: what is taken is read from the nodes and the promises. Who comes after
// a crash keeps the promises that it finds: they are forgotten once their node
// has its ranges, or is gone. A node that has a range of one family only, from
// before the cluster had two, keeps that: ranges of a node cannot be changed, as
// upstream.
package nodeipam

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "nodeipam"

// all is the one key: which range a node gets depends on all of them.
var all = loop.Key{}

// Config says what is given to whom.
type Config struct {
	// Cluster has a range for each family of addresses, one or two.
	Cluster []netip.Prefix
	// Kept are given to nobody: whose they are takes them himself.
	Kept []netip.Prefix
	// Simulated tells of a node whether nothing is sent to its pods; nil: none
	// is.
	Simulated func(*corev1.Node) bool
}

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	config Config
	client client.Interface
	events client.Recorder
	nodes  client.View
	// What follows is the worker's own. settled says that no promise is left that
	// this copy knows of.
	settled bool
	told    map[string]bool // nodes that were told that there is no range left
}

// New wires the loop; Run turns it.
func New(opts controllers.Options, config Config) (*Controller, error) {
	cluster := config.Cluster
	for _, p := range cluster {
		if _, err := newRanges(p); err != nil {
			return nil, err
		}
	}
	if config.Simulated == nil {
		config.Simulated = func(*corev1.Node) bool { return false }
	}
	if len(cluster) == 0 || len(cluster) > 2 || len(cluster) == 2 && cluster[0].Addr().Is4() == cluster[1].Addr().Is4() {
		return nil, fmt.Errorf("nodeipam: %d cluster ranges; there must be one, or one of each family", len(cluster))
	}
	c := &Controller{client: opts.Client, events: opts.Recorder(), config: config, told: map[string]bool{},
		nodes: opts.Client.View(client.Nodes, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c, nil
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.nodes, Changed: c.changed})
}

func (c *Controller) changed(old, new client.Object) {
	was, _ := old.(*corev1.Node)
	is, _ := new.(*corev1.Node)
	if was != nil && is != nil && (is.Spec.PodCIDR != "" || was.Spec.PodCIDR == "" && c.config.Simulated(was) == c.config.Simulated(is)) {
		return // a heartbeat
	}
	c.Look(all)
}

// reconcile gives ranges to the nodes that have none. The plan is made once
// for all of them, for it costs a look at every node; each write stands for
// itself. A node that was changed meanwhile keeps no other from its range: of
// thousands that have just come, some always are. After an error the plan is
// made anew.
func (c *Controller) reconcile(ctx context.Context, _ loop.Key) (loop.Outcome, error) {
	if c.settled && !slices.ContainsFunc(client.Listed[*corev1.Node](c.nodes, ""), lacks) {
		return loop.Done(), nil
	}
	promised, err := readRecord(ctx, c.client)
	if err != nil {
		return loop.Outcome{}, err
	}
	// After the record: what it promises no more is seen at the nodes.
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return loop.Outcome{}, err
	}
	given, left := plan(nodes, promised.promised, c.config)
	want := promises{}
	for _, node := range given {
		want[node.UID] = node.Spec.PodCIDRs
	}
	if err := promised.write(ctx, c.client, want); err != nil {
		return loop.Outcome{}, err
	}
	c.settled = len(want) == 0
	if err := c.give(ctx, given); err != nil {
		return loop.Outcome{}, err
	}
	if len(given) > 0 {
		return loop.Acted("gave ranges to %d nodes", len(given)), nil
	}
	if len(left) == 0 {
		clear(c.told)
		return loop.Done(), nil
	}
	for _, node := range left {
		if !c.told[node.Name] {
			c.told[node.Name] = true
			c.events.Event(node, corev1.EventTypeNormal, "CIDRNotAvailable", "Node %s status is now: CIDRNotAvailable", node.Name)
		}
	}
	return loop.WaitFor("Node "+left[0].Name, "no range is left of %v for %d nodes", c.config.Cluster, len(left)), nil
}

// give writes the ranges of nodes; of many, some at a time, for each write waits
// for the disk. Of errors it returns one, a conflict only if there is no other;
// after another nothing more is begun.
func (c *Controller) give(ctx context.Context, nodes []*corev1.Node) error {
	var (
		mu            sync.Mutex
		conflict, bad error // guarded by mu
		wg            sync.WaitGroup
	)
	turns := make(chan struct{}, 1+min(len(nodes)/10, 15))
	for _, node := range nodes {
		turns <- struct{}{}
		mu.Lock()
		stop := bad != nil
		mu.Unlock()
		if stop {
			break
		}
		wg.Go(func() {
			defer func() { <-turns }()
			_, err := c.client.Update(ctx, client.Nodes, node)
			if err == nil || apierrors.IsNotFound(err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if err = fmt.Errorf("give range %s to node %s: %w", node.Spec.PodCIDR, node.Name, err); apierrors.IsConflict(err) {
				conflict = err
			} else {
				bad = err
			}
		})
	}
	wg.Wait()
	return cmp.Or(bad, conflict)
}

func (c *Controller) listNodes(ctx context.Context) ([]*corev1.Node, error) {
	list, _, err := c.client.List(ctx, client.Nodes, "", metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	nodes := make([]*corev1.Node, 0, len(list))
	for _, obj := range list {
		if node, ok := obj.(*corev1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
