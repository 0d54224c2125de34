package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Extender is a program that is asked over HTTP which of the nodes that fit a
// pod may have, and how good they are. Preemption does not ask it: a node that
// it refuses is none where room can be made.
//
// https://github.com/kubernetes/design-proposals-archive/blob/main/scheduling/scheduler_extender.md
type Extender struct {
	URL string // "https://host/prefix"
	// Filter, Prioritize and Bind are what follows the prefix for each
	// question; "" is never asked.
	Filter, Prioritize, Bind string
	Weight                   int64 // of its scores
	// Resources, when there are any, are those without which a pod is none of
	// the extender's business.
	Resources []corev1.ResourceName
	Names     bool // it knows the nodes: only their names are sent
	Ignorable bool // when it does not answer, do without
	Timeout   time.Duration
	Client    *http.Client // nil: http.DefaultClient
}

// concerns tells whether a pod is an extender's business.
func (e *Extender) concerns(p *podInfo) bool {
	return len(e.Resources) == 0 || slices.ContainsFunc(e.Resources, func(name corev1.ResourceName) bool { return p.requests.of(name) > 0 })
}

// ask posts a question and reads the answer.
func (e *Extender) ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Timeout, 5*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := cmp.Or(e.Client, http.DefaultClient).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("extender %s: %s", req.URL, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

// verdict is what the extenders made of the nodes.
type verdict struct {
	vetoed map[string]string // nodes that one refused, with why
	scores map[string]int64
	binder *Extender
	err    error
}

// judge asks all extenders, one after the other.
func judge(ctx context.Context, extenders []Extender, p *podInfo, nodes []*corev1.Node) verdict {
	v := verdict{vetoed: map[string]string{}, scores: map[string]int64{}}
	for i := range extenders {
		e := &extenders[i]
		if !e.concerns(p) {
			continue
		}
		if e.Bind != "" {
			v.binder = e
		}
		left := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return v.vetoed[n.Name] != "" })
		if len(left) == 0 {
			break
		}
		if err := e.judge(ctx, p.pod, left, &v); err != nil && !e.Ignorable {
			v.err = err
			return v
		}
	}
	return v
}

func (e *Extender) judge(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node, v *verdict) error {
	args := extenderv1.ExtenderArgs{Pod: pod}
	names := make([]string, len(nodes))
	list := &corev1.NodeList{}
	for i, n := range nodes {
		names[i] = n.Name
		if !e.Names {
			list.Items = append(list.Items, *n)
		}
	}
	if args.Nodes = list; e.Names {
		args.Nodes, args.NodeNames = nil, &names
	}
	if e.Filter != "" {
		var got extenderv1.ExtenderFilterResult
		if err := e.ask(ctx, e.Filter, args, &got); err != nil {
			return err
		}
		if got.Error != "" {
			return errors.New(got.Error)
		}
		kept := map[string]bool{}
		if got.NodeNames != nil {
			for _, name := range *got.NodeNames {
				kept[name] = true
			}
		} else if got.Nodes != nil {
			for i := range got.Nodes.Items {
				kept[got.Nodes.Items[i].Name] = true
			}
		}
		for _, name := range names {
			if why := cmp.Or(got.FailedNodes[name], got.FailedAndUnresolvableNodes[name]); !kept[name] || why != "" {
				v.vetoed[name] = cmp.Or(why, "node(s) were refused by an extender")
			}
		}
	}
	if e.Prioritize != "" {
		var got extenderv1.HostPriorityList
		if err := e.ask(ctx, e.Prioritize, args, &got); err != nil {
			return nil // as upstream: scores are a matter of taste
		}
		for _, h := range got {
			v.scores[h.Host] += h.Score * e.Weight * (maxScore / extenderv1.MaxExtenderPriority)
		}
	}
	return nil
}

// consult asks the extenders about the candidates, and settles when they have
// answered. Meanwhile others are placed.
func (s *Scheduler) consult(ctx context.Context, p *podInfo) {
	candidates := slices.Clone(s.placement.candidates)
	nodes := make([]*corev1.Node, len(candidates))
	for i := range candidates {
		nodes[i] = candidates[i].node.node
	}
	s.bindings++
	s.inbox.writes.Go(func() {
		v := judge(ctx, s.opts.Extenders, p, nodes)
		s.inbox.call(func() {
			s.bindings--
			s.judged(ctx, p, candidates, v)
		})
	})
}

// judged settles a pod that extenders have judged, if it is still to be placed.
func (s *Scheduler) judged(ctx context.Context, p *podInfo, candidates []candidate, v verdict) {
	now := time.Now()
	pod := client.In[*corev1.Pod](s.pods, p.key.Namespace, p.key.Name)
	if _, held := s.cluster.pods[p.key]; held || pod == nil || pod.UID != p.uid || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		s.settleWoken(p, "")
		return
	}
	s.queue.remove(p.key) // it may have been looked at meanwhile
	if v.err != nil {
		s.settleWoken(p, "")
		s.gaps.set(p.key, loop.Failing, "", v.err.Error())
		s.observe(p.key, loop.Outcome{}, v.err)
		s.queue.retry(p, now)
		return
	}
	s.placement.look(p)
	s.placement.vetoed = v.vetoed
	s.placement.candidates = s.placement.candidates[:0]
	for _, c := range candidates {
		if v.vetoed[c.node.name] == "" && c.node.node != nil && s.placement.fits(p, c.node) {
			c.score += v.scores[c.node.name]
			s.placement.candidates = append(s.placement.candidates, c)
		}
	}
	n := s.placement.best()
	if n != nil && v.binder != nil {
		p.binder = v.binder
	}
	s.settle(ctx, p, n, now)
}

// bindBy lets an extender write the binding.
func (e *Extender) bindBy(ctx context.Context, pod *corev1.Pod, node string) error {
	var got extenderv1.ExtenderBindingResult
	err := e.ask(ctx, e.Bind, extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}, &got)
	if err == nil && got.Error != "" {
		err = errors.New(got.Error)
	}
	return err
}
