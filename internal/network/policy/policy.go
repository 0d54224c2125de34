// Package policy enforces NetworkPolicies on a node, by nftables rules of a
// table of its own.
//
//	NetworkPolicies, Pods, Namespaces
//	      | Plan (pure): for each isolated pod of this node, what is let pass
//	      v
//	Program: chains of what passes, pods that are led to one for each direction
//	      | what differs from the program in force
//	      v
//	one nftables transaction (Table.Set)
//
// All this is there for each family of addresses, with a table of its own.
//
// The rules look at packets as pods see them: behind a service's address, at
// the pod's own port. Connections that are there when a policy comes live on.
// What comes from the pod's own node always passes, as the API has it; so do
// questions to the node's DNS server, which is no pod that a policy could name.
//
// The rules stay in force while Setpoint is down. A new pod may be reached for
// a moment until the rules know its address.
//
// Cost: nothing where there is no policy, not even a list of the pods. Else a
// change of pods, policies or namespaces makes one plan of all, at most ten a
// second; only what differs is written.
//
// See https://kubernetes.io/docs/concepts/services-networking/network-policies/.
package policy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/loop"
)

// pace is the least time between two plans.
const pace = 100 * time.Millisecond

// Options of the loop.
type Options struct {
	Client client.Interface
	Host   *network.Host
	Node   string
	DNS    []netip.AddrPort // where the node's DNS server is, in each family; none: nowhere
	Logger *slog.Logger
}

// Loop enforces.
type Loop struct {
	opts     Options
	policies client.View
	loop     *loop.Loop

	tables []*Table // of each family, once they were written; of the one worker
	last   time.Time

	mu struct {
		sync.Mutex
		pods, namespaces client.View // nil until there is a policy
		remove           []func()
	}
}

// only is the one key: a pod may be meant by any policy.
var only = loop.Key{Name: "policies"}

// New makes the loop; Run turns it.
func New(o Options) *Loop {
	l := &Loop{opts: o, policies: o.Client.View(client.NetworkPolicies, client.ViewOptions{})}
	l.loop = loop.New(loop.Options{Name: "networkpolicy", Reconcile: l.reconcile, Workers: 1, MaxBackoff: 10 * time.Second, Logger: o.Logger})
	return l
}

func (l *Loop) Name() string     { return l.loop.Name() }
func (l *Loop) Gaps() []loop.Gap { return l.loop.Gaps() }

// Run turns the loop until ctx ends; the rules stay.
func (l *Loop) Run(ctx context.Context) error {
	if err := l.policies.WaitSynced(ctx); err != nil {
		l.loop.Stop()
		return err
	}
	l.loop.Look(only)
	defer l.policies.Handle(func(_, _ client.Object) { l.loop.Look(only) })()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, f := range l.mu.remove {
			f()
		}
	}()
	return l.loop.Run(ctx)
}

// follow begins to follow pods and namespaces.
func (l *Loop) follow(ctx context.Context) error {
	l.mu.Lock()
	if l.mu.pods == nil {
		l.mu.pods = l.opts.Client.View(client.Pods, client.ViewOptions{})
		l.mu.namespaces = l.opts.Client.View(client.Namespaces, client.ViewOptions{})
		l.mu.remove = append(l.mu.remove,
			l.mu.pods.Handle(func(old, new client.Object) {
				if !samePod(old, new) {
					l.loop.Look(only)
				}
			}),
			l.mu.namespaces.Handle(func(old, new client.Object) {
				if old == nil || new == nil || !maps.Equal(old.GetLabels(), new.GetLabels()) {
					l.loop.Look(only)
				}
			}))
	}
	pods, namespaces := l.mu.pods, l.mu.namespaces
	l.mu.Unlock()
	if err := pods.WaitSynced(ctx); err != nil {
		return err
	}
	return namespaces.WaitSynced(ctx)
}

// samePod tells that nothing of a pod changed that a policy looks at.
func samePod(old, new client.Object) bool {
	a, ok := old.(*corev1.Pod)
	b, ok2 := new.(*corev1.Pod)
	if !ok || !ok2 {
		return false
	}
	over := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}
	return a.UID == b.UID && a.Status.PodIP == b.Status.PodIP && slices.Equal(a.Status.PodIPs, b.Status.PodIPs) && a.Spec.NodeName == b.Spec.NodeName && over(a) == over(b) && maps.Equal(a.Labels, b.Labels)
}

func (l *Loop) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	policies := client.Listed[*networkingv1.NetworkPolicy](l.policies, "")
	if len(policies) == 0 && l.tables != nil && !slices.ContainsFunc(l.tables, func(t *Table) bool { return !t.none }) {
		return loop.Done(), nil
	}
	if wait := pace - time.Since(l.last); wait > 0 {
		l.loop.LookAfter(key, wait)
		return loop.Done(), nil
	}
	if len(policies) > 0 {
		if err := l.follow(ctx); err != nil {
			return loop.Outcome{}, err
		}
	}
	if l.tables == nil {
		for _, f := range l.opts.Host.Families() {
			table, err := NewTable(l.opts.Host, f, l.opts.DNS)
			if err != nil {
				l.tables = nil
				return loop.Outcome{}, err
			}
			l.tables = append(l.tables, table)
		}
	}
	isolated := false
	for _, table := range l.tables {
		var program Program
		if len(policies) > 0 {
			program = Plan(table.family, l.opts.Node, policies, client.Listed[*corev1.Pod](l.mu.pods, ""), client.Listed[*corev1.Namespace](l.mu.namespaces, ""))
		}
		if err := table.Set(program); err != nil {
			return loop.Outcome{}, fmt.Errorf("write the rules of network policies: %s: %w", table.family, err)
		}
		isolated = isolated || len(program.Ingress)+len(program.Egress) > 0
	}
	l.last = time.Now()
	if isolated && !l.opts.Host.BridgeFilter {
		return loop.WaitFor("kernel module br_netfilter", "without it policies are not enforced between pods of this node"), nil
	}
	return loop.Done(), nil
}
