package horizontalpodautoscaler

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-project/setpoint/loop"
)

// selectors are what the targets of autoscalers select, as last seen: two that
// select one pod are one too many. They are found by a label that they ask for,
// so that a look costs what its pods have in labels, not how many autoscalers
// there are.
//
// The zero value is ready. Safe for use from many goroutines.
type selectors struct {
	mu sync.Mutex
	of map[loop.Key]labels.Selector           // guarded by mu; nil: there is none that can be read
	by map[label]map[loop.Key]labels.Selector // guarded by mu
}

// label is one that a selector asks for; without key it asks for none in
// particular.
type label struct{ namespace, key, value string }

// required are the labels that a selector demands as they are.
func required(by labels.Selector) map[string]string {
	out := map[string]string{}
	requirements, _ := by.Requirements()
	for _, r := range requirements {
		if op := r.Operator(); (op == selection.Equals || op == selection.DoubleEquals || op == selection.In) && r.Values().Len() == 1 {
			out[r.Key()], _ = r.Values().PopAny()
		}
	}
	return out
}

func indexOf(namespace string, by labels.Selector) label {
	out := label{namespace: namespace}
	for k, v := range required(by) {
		if out.key == "" || k < out.key {
			out.key, out.value = k, v
		}
	}
	return out
}

// set notes what the target of an autoscaler selects; nil when that cannot be
// told.
func (s *selectors) set(key loop.Key, by labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(key)
	if s.of == nil {
		s.of, s.by = map[loop.Key]labels.Selector{}, map[label]map[loop.Key]labels.Selector{}
	}
	s.of[key] = by
	if by != nil {
		at := indexOf(key.Namespace, by)
		if s.by[at] == nil {
			s.by[at] = map[loop.Key]labels.Selector{}
		}
		s.by[at][key] = by
	}
}

// forget an autoscaler that is gone.
func (s *selectors) forget(key loop.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(key)
}

func (s *selectors) dropLocked(key loop.Key) {
	if by := s.of[key]; by != nil {
		at := indexOf(key.Namespace, by)
		if delete(s.by[at], key); len(s.by[at]) == 0 {
			delete(s.by, at)
		}
	}
	delete(s.of, key)
}

// known tells whether somebody looked at what an autoscaler selects.
func (s *selectors) known(key loop.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.of[key]
	return ok
}

// selecting are the names of all autoscalers that select some of the pods, when
// there are others than key. there tells whether one still exists: what it
// selects may have been noted as it went.
func (s *selectors) selecting(key loop.Key, pods []*corev1.Pod, there func(loop.Key) bool) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[loop.Key]bool{key: true}
	try := func(at label, pod *corev1.Pod) {
		for other, by := range s.by[at] {
			if seen[other] || !by.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if seen[other] = true; there(other) {
				names = append(names, other.String())
			}
		}
	}
	for _, pod := range pods {
		try(label{namespace: key.Namespace}, pod)
		for k, v := range pod.Labels {
			try(label{key.Namespace, k, v}, pod)
		}
	}
	if len(names) == 0 {
		return nil
	}
	names = append(names, key.String())
	slices.Sort(names)
	return names
}
