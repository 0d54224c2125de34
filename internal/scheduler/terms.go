package scheduler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// podTerms are a pod's rules about other pods. Most pods have none.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
// https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
type podTerms struct {
	affinity, antiAffinity []term
	spread                 []spreadTerm

	preferred  []weightedTerm
	softSpread []spreadTerm // ScheduleAnyway
}

// weightedTerm attracts, or with a weight below 0 repels.
type weightedTerm struct {
	term
	weight int64
}

// term matches pods by labels and namespace, in a domain of nodes that have
// the same value of the topology key.
type term struct {
	id                string // equal terms have the same
	topologyKey       string
	selector          labels.Selector
	namespaces        []string
	namespaceSelector labels.Selector // nil: the namespaces alone
}

type spreadTerm struct {
	term          // of the pods that are spread
	maxSkew       int
	minDomains    int
	honorAffinity bool // only nodes that the pod's node affinity allows count
	honorTaints   bool // only nodes whose taints the pod tolerates count
	self          bool // the pod matches its own selector
	lenient       bool // nodes without the keys of all such constraints count as well
}

// newPodTerms returns nil for a pod without rules that its profile heeds.
func newPodTerms(pod *corev1.Pod, of *profile) *podTerms {
	t := podTerms{}
	if a := pod.Spec.Affinity; a != nil && of.without&withoutPods == 0 {
		if a.PodAffinity != nil {
			t.preferred = newWeightedTerms(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1)
			t.affinity = newTerms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			t.preferred = append(t.preferred, newWeightedTerms(pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, -1)...)
			t.antiAffinity = newTerms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if of.without&withoutSpread != 0 {
			break
		}
		c := &pod.Spec.TopologySpreadConstraints[i]
		if term := newSpreadTerm(pod, c); c.WhenUnsatisfiable == corev1.DoNotSchedule {
			t.spread = append(t.spread, term)
		} else {
			t.softSpread = append(t.softSpread, term)
		}
	}
	if len(t.affinity) == 0 && len(t.antiAffinity) == 0 && len(t.spread) == 0 && len(t.preferred) == 0 && len(t.softSpread) == 0 {
		return nil
	}
	return &t
}

func newWeightedTerms(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm, sign int64) []weightedTerm {
	var out []weightedTerm
	for i := range list {
		for _, t := range newTerms(pod, []corev1.PodAffinityTerm{list[i].PodAffinityTerm}) {
			out = append(out, weightedTerm{term: t, weight: sign * int64(list[i].Weight)})
		}
	}
	return out
}

func newTerms(pod *corev1.Pod, list []corev1.PodAffinityTerm) []term {
	var out []term
	for i := range list {
		t := term{topologyKey: list[i].TopologyKey, selector: asSelector(list[i].LabelSelector), namespaces: slices.Clone(list[i].Namespaces)}
		if list[i].NamespaceSelector != nil {
			t.namespaceSelector = asSelector(list[i].NamespaceSelector)
		} else if len(t.namespaces) == 0 {
			t.namespaces = []string{pod.Namespace}
		}
		out = append(out, t.identified())
	}
	return out
}

func (t term) identified() term {
	slices.Sort(t.namespaces)
	t.id = t.topologyKey + "\x00" + t.selector.String() + "\x00" + strings.Join(t.namespaces, ",")
	if t.namespaceSelector != nil {
		t.id += "\x00" + t.namespaceSelector.String() + "\x00"
	}
	return t
}

// asSelector of one that does not parse, which validation has refused, matches
// nothing.
func asSelector(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func newSpreadTerm(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) spreadTerm {
	t := spreadTerm{term: term{topologyKey: c.TopologyKey, selector: asSelector(c.LabelSelector), namespaces: []string{pod.Namespace}}, maxSkew: int(c.MaxSkew), minDomains: 1, honorAffinity: true}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			if r, err := labels.NewRequirement(key, selection.In, []string{value}); err == nil {
				t.selector = t.selector.Add(*r)
			}
		}
	}
	if c.MinDomains != nil {
		t.minDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		t.honorAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		t.honorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	t.term = t.term.identified()
	t.self = t.selector.Matches(labels.Set(pod.Labels))
	return t
}

// matches tells whether a term is about pods of a namespace with these labels.
func (t *term) matches(namespace string, set labels.Set, namespaceLabels func(string) labels.Set) bool {
	if !slices.Contains(t.namespaces, namespace) &&
		(t.namespaceSelector == nil || !t.namespaceSelector.Matches(namespaceLabels(namespace))) {
		return false
	}
	return t.selector.Matches(set)
}
