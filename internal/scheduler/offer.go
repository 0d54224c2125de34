package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Preemption with extenders: each is shown the nodes where room can be made,
// with who would have to leave there, and says what of it may be; it may also
// choose other victims of the node. The best of what the last leaves is done.
//
//	refuse -> offer -> (haggle: extender after extender) -> accept -> makeRoom

// haveSay tells whether an extender is to be asked who leaves for p.
func (s *Scheduler) haveSay(p *podInfo) bool {
	return slices.ContainsFunc(s.opts.Extenders, func(e Extender) bool { return e.Preempt != "" && e.concerns(p.pod) })
}

// resident is a pod on a node on which room can be made.
type resident struct {
	info    *podInfo
	pod     *corev1.Pod
	started time.Time
}

// offer is what extenders are shown of one node. It is never changed.
type offer struct {
	residents map[types.UID]resident
	victims   []types.UID
	broken    int64 // budgets
}

// offer asks the extenders which of the evictions may be. Meanwhile p waits like
// any other that was refused, and is not offered again; what its status says
// has time until they have answered.
func (s *Scheduler) offer(ctx context.Context, p *podInfo, list []*eviction, message string) {
	if s.offered[p.uid] {
		return
	}
	offers := map[string]*offer{}
	for _, e := range list {
		o := &offer{residents: map[types.UID]resident{}, broken: int64(e.broken)}
		for _, q := range e.node.pods {
			if pod := client.In[*corev1.Pod](s.pods, q.key.Namespace, q.key.Name); pod != nil && pod.UID == q.uid {
				o.residents[q.uid] = resident{q, pod, s.cluster.started(q)}
			}
		}
		for _, q := range e.victims {
			if _, here := o.residents[q.uid]; here {
				o.victims = append(o.victims, q.uid)
			}
		}
		if len(o.victims) == len(e.victims) { // else somebody went already
			offers[e.node.name] = o
		}
	}
	s.offered[p.uid] = true
	s.bindings++
	pod := p.pod
	s.inbox.writes.Go(func() {
		left, err := haggle(ctx, s.opts.Extenders, pod, offers)
		s.inbox.call(func() {
			s.bindings--
			delete(s.offered, pod.UID)
			s.accept(ctx, pod, left, message, err)
		})
	})
}

// accept makes room where the extenders left it, if the pod still waits for it.
// message is what its status is to say of why it waits.
func (s *Scheduler) accept(ctx context.Context, pod *corev1.Pod, offers map[string]*offer, message string, err error) {
	p := s.queue.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	if p == nil || p.uid != pod.UID {
		return
	}
	defer func() { s.tell(ctx, p, message, time.Now()) }()
	if err != nil {
		if ctx.Err() == nil {
			s.opts.Logger.Info("an extender does not say who is to leave", "pod", p.key.String(), "error", err)
			s.again(p.key)
		}
		return
	}
	var list []*eviction
	for name, o := range offers {
		if e := s.cluster.agreed(name, o); e != nil {
			list = append(list, e)
		}
	}
	// In an order of its own: the map has none.
	slices.SortFunc(list, func(a, b *eviction) int { return cmp.Compare(a.node.name, b.node.name) })
	e := bestOf(list)
	if e == nil || s.placement.eligible(p) != "" {
		return
	}
	s.makeRoom(ctx, p, e)
}

// agreed is the eviction that an offer has become; nil when one of its pods is
// gone meanwhile: then there is news, and p is looked at again.
func (c *cluster) agreed(name string, o *offer) *eviction {
	n := c.nodes[name]
	if n == nil {
		return nil
	}
	e := &eviction{node: n, broken: int(o.broken)}
	started := map[*podInfo]time.Time{}
	for _, uid := range o.victims {
		r := o.residents[uid]
		q := n.pods[r.info.key]
		if q == nil || q.uid != uid {
			return nil
		}
		e.victims = append(e.victims, q)
		started[q] = r.started
	}
	slices.SortFunc(e.victims, func(a, b *podInfo) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), started[a].Compare(started[b]), cmp.Compare(a.key.String(), b.key.String()))
	})
	e.eldest = started[e.victims[0]]
	return e
}

// haggle asks one extender after the other. What one leaves is what the next is
// shown.
func haggle(ctx context.Context, extenders []Extender, pod *corev1.Pod, offers map[string]*offer) (map[string]*offer, error) {
	for i := range extenders {
		e := &extenders[i]
		if e.Preempt == "" || !e.concerns(pod) || len(offers) == 0 {
			continue
		}
		switch left, err := e.preempt(ctx, pod, offers); {
		case err == nil:
			offers = left
		case !e.Ignorable:
			return nil, err
		}
	}
	return offers, nil
}

func (e *Extender) preempt(ctx context.Context, pod *corev1.Pod, offers map[string]*offer) (map[string]*offer, error) {
	args := extenderv1.ExtenderPreemptionArgs{Pod: pod}
	if e.Names {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
	} else {
		args.NodeNameToVictims = map[string]*extenderv1.Victims{}
	}
	for name, o := range offers {
		if e.Names {
			v := &extenderv1.MetaVictims{NumPDBViolations: o.broken}
			for _, uid := range o.victims {
				v.Pods = append(v.Pods, &extenderv1.MetaPod{UID: string(uid)})
			}
			args.NodeNameToMetaVictims[name] = v
			continue
		}
		v := &extenderv1.Victims{NumPDBViolations: o.broken}
		for _, uid := range o.victims {
			v.Pods = append(v.Pods, o.residents[uid].pod)
		}
		args.NodeNameToVictims[name] = v
	}
	var got extenderv1.ExtenderPreemptionResult
	if err := e.ask(ctx, e.Preempt, args, &got); err != nil {
		return nil, err
	}
	left := map[string]*offer{}
	for name, v := range got.NodeNameToMetaVictims { // it answers by them in any case
		o := offers[name]
		switch {
		case o == nil:
			return nil, fmt.Errorf("extender %s: it was not asked about node %q", e.URL, name)
		case (v == nil || len(v.Pods) == 0) && e.Ignorable:
			continue
		case v == nil || len(v.Pods) == 0:
			return nil, fmt.Errorf("extender %s: nobody is to leave node %q: one pod at least is expected to", e.URL, name)
		}
		chosen := &offer{residents: o.residents, broken: v.NumPDBViolations}
		for _, m := range v.Pods {
			if _, here := o.residents[types.UID(m.UID)]; !here {
				return nil, fmt.Errorf("extender %s: pod %s, which is to leave node %q, is not there", e.URL, m.UID, name)
			}
			chosen.victims = append(chosen.victims, types.UID(m.UID))
		}
		left[name] = chosen
	}
	return left, nil
}
