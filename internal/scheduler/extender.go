package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Extender is a program that is asked over HTTP which of the nodes that fit a
// pod may have, and how good they are; where room is made for one, and who has
// to leave; and to write the binding.
//
// https://github.com/kubernetes/design-proposals-archive/blob/main/scheduling/scheduler_extender.md
type Extender struct {
	URL string // "https://host/prefix"
	// Filter, Prioritize, Preempt and Bind are what follows the prefix for each
	// question; "" is never asked.
	Filter, Prioritize, Preempt, Bind string
	Weight                            int64 // of its scores
	// Resources, when there are any, are those without which a pod is none of
	// the extender's business.
	Resources []corev1.ResourceName
	Names     bool // it knows the nodes: only their names are sent
	Ignorable bool // when it does not answer, do without
	Timeout   time.Duration
	Client    *http.Client // nil: http.DefaultClient
}

// concerns tells whether a pod is an extender's business: a container names one
// of its resources, if only to have none of it.
func (e *Extender) concerns(pod *corev1.Pod) bool {
	if len(e.Resources) == 0 {
		return true
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for _, name := range e.Resources {
				_, requested := containers[i].Resources.Requests[name]
				if _, limited := containers[i].Resources.Limits[name]; requested || limited {
					return true
				}
			}
		}
	}
	return false
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

// judge asks all extenders, one after the other: which nodes pass, and, where
// more than one does, how good those are.
func judge(ctx context.Context, extenders []Extender, pod *corev1.Pod, nodes []*corev1.Node) verdict {
	v := verdict{vetoed: map[string]string{}, scores: map[string]int64{}}
	for i := range extenders {
		e := &extenders[i]
		if !e.concerns(pod) {
			continue
		}
		if e.Bind != "" && v.binder == nil {
			v.binder = e
		}
		if e.Filter == "" || len(nodes) == 0 {
			continue
		}
		switch left, err := e.filter(ctx, pod, nodes, v.vetoed); {
		case err == nil:
			nodes = left
		case !e.Ignorable:
			v.err = err
			return v
		}
	}
	if len(nodes) < 2 {
		return v
	}
	for i := range extenders {
		if e := &extenders[i]; e.Prioritize != "" && e.concerns(pod) {
			e.prioritize(ctx, pod, nodes, v.scores)
		}
	}
	return v
}

// about is the question about nodes.
func (e *Extender) about(pod *corev1.Pod, nodes []*corev1.Node) extenderv1.ExtenderArgs {
	args := extenderv1.ExtenderArgs{Pod: pod}
	if e.Names {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n)
	}
	return args
}

// filter returns the nodes that pass, and notes why others do not.
func (e *Extender) filter(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node, vetoed map[string]string) (left []*corev1.Node, err error) {
	var got extenderv1.ExtenderFilterResult
	if err := e.ask(ctx, e.Filter, e.about(pod, nodes), &got); err != nil {
		return nil, err
	}
	if got.Error != "" {
		return nil, errors.New(got.Error)
	}
	kept := map[string]bool{}
	if e.Names && got.NodeNames != nil {
		for _, name := range *got.NodeNames {
			kept[name] = true
		}
	} else if got.Nodes != nil {
		for i := range got.Nodes.Items {
			kept[got.Nodes.Items[i].Name] = true
		}
	}
	refused := map[string]string{}
	for _, n := range nodes {
		if kept[n.Name] {
			left = append(left, n)
			delete(kept, n.Name)
			continue
		}
		refused[n.Name] = cmp.Or(got.FailedNodes[n.Name], got.FailedAndUnresolvableNodes[n.Name], "node(s) were refused by an extender")
	}
	for name := range kept {
		return nil, fmt.Errorf("extender %s: it was not asked about node %q, which it lets pass", e.URL, name)
	}
	maps.Copy(vetoed, refused)
	return left, nil
}

// prioritize adds its scores. When it has none to give the pod is placed all
// the same, as upstream: scores are a matter of taste.
func (e *Extender) prioritize(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node, scores map[string]int64) {
	var got extenderv1.HostPriorityList
	if err := e.ask(ctx, e.Prioritize, e.about(pod, nodes), &got); err != nil {
		return
	}
	for _, h := range got {
		scores[h.Host] += h.Score * e.Weight * (maxScore / extenderv1.MaxExtenderPriority)
	}
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
	pod := p.pod
	s.inbox.writes.Go(func() {
		v := judge(ctx, s.opts.Extenders, pod, nodes)
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
