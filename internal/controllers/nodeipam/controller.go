// Package nodeipam gives each node a range of addresses for its pods, a part
// of the cluster's range: spec.podCIDR, and podCIDRs for each family.
//
// Use: New(options, Config{Cluster: ranges}).Run(ctx).
//
// Simulated nodes do without when ranges run short, since their pods' addresses
// lead nowhere: one range in eight is kept for other nodes.
//
// Concurrency: one worker, for what is taken is one question.
//
// Failure: what is taken is read from the nodes. Nodes get the lowest free
// range, the oldest node first, so that two copies of the loop come to the
// same plan; a node's range cannot be changed, so that the second to write is
// refused.
package nodeipam

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	// Simulated tells of a node whether nothing is sent to its pods; nil: none
	// is.
	Simulated func(*corev1.Node) bool
}

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	config  Config
	client  client.Interface
	events  client.Recorder
	nodes   client.View
	written controllers.Written
	told    map[string]bool // nodes that were told that there is no range left; the worker's own
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
// itself, and after an error the plan is made anew.
func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	given, left := plan(client.Listed[*corev1.Node](c.nodes, ""), c.config)
	for _, node := range given {
		got, err := c.client.Update(ctx, client.Nodes, node)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return loop.Outcome{}, fmt.Errorf("give range %s to node %s: %w", node.Spec.PodCIDR, node.Name, err)
		}
		c.written.Note(key, c.nodes, got)
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

// plan gives ranges to the nodes that have none, and returns those that need
// one and for which there is none left.
func plan(nodes []*corev1.Node, config Config) (given, left []*corev1.Node) {
	var missing []*corev1.Node
	for _, node := range nodes {
		if node.Spec.PodCIDR == "" && node.DeletionTimestamp == nil {
			missing = append(missing, node)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	all := make([]*ranges, len(config.Cluster))
	for i := range all {
		all[i], _ = newRanges(config.Cluster[i]) // New has checked it
		for _, node := range nodes {
			for _, s := range append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...) {
				if p, err := netip.ParsePrefix(s); err == nil {
					all[i].take(p)
				}
			}
		}
	}
	slices.SortFunc(missing, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	// One by one from the oldest on, the simulated among them: a copy of the loop
	// that does not see the youngest yet comes to the same for all others.
	for _, node := range missing {
		simulated := config.Simulated(node)
		cidrs := make([]string, len(all))
		short := false
		for k, r := range all {
			p, ok := r.free()
			short = short || !ok || simulated && !r.spare()
			cidrs[k] = p.String()
		}
		switch {
		case short && !simulated:
			left = append(left, node)
		case !short:
			for k, r := range all {
				r.take(netip.MustParsePrefix(cidrs[k]))
			}
			next := node.DeepCopy()
			next.Spec.PodCIDR, next.Spec.PodCIDRs = cidrs[0], cidrs
			given = append(given, next)
		}
	}
	return given, left
}
