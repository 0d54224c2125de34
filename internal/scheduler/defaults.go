package scheduler

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// systemSpread is how pods of a workload are spread that says nothing itself.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/#internal-default-constraints
var systemSpread = []corev1.TopologySpreadConstraint{
	{MaxSkew: 3, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
	{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway},
}

// spreadByDefault gives a pod without constraints those of its profile, over
// the pods of its Services and its owner. A pod of neither is left alone.
func (s *Scheduler) spreadByDefault(p *podInfo) {
	if len(p.pod.Spec.TopologySpreadConstraints) > 0 || p.profile.without&withoutSpread != 0 {
		return
	}
	constraints, lenient := p.profile.Spread, false
	if constraints == nil {
		constraints, lenient = systemSpread, true // nodes without zones count as well
	}
	if len(constraints) == 0 {
		return
	}
	selector := s.workloadOf(p.pod)
	if selector == nil {
		return
	}
	terms := podTerms{}
	if p.terms != nil {
		terms = *p.terms
	}
	for i := range constraints {
		c := constraints[i]
		c.LabelSelector = selector
		t := newSpreadTerm(p.pod, &c)
		t.lenient = lenient
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			terms.spread = append(terms.spread, t)
		} else {
			terms.softSpread = append(terms.softSpread, t)
		}
	}
	p.terms = &terms
}

// workloadOf is a selector of the pods that a pod is one of; nil: none.
func (s *Scheduler) workloadOf(pod *corev1.Pod) *metav1.LabelSelector {
	out := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, service := range controllers.Selecting[*corev1.Service](s.services, pod.Namespace, pod.Labels) {
		if len(service.Spec.Selector) > 0 && controllers.HasAll(pod.Labels, service.Spec.Selector) {
			for k, v := range service.Spec.Selector {
				out.MatchLabels[k] = v
			}
		}
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		var owner *metav1.LabelSelector
		switch ref.Kind {
		case "ReplicaSet":
			if rs := client.In[*appsv1.ReplicaSet](s.sets, pod.Namespace, ref.Name); rs != nil {
				owner = rs.Spec.Selector
			}
		case "StatefulSet":
			if ss := client.In[*appsv1.StatefulSet](s.stateful, pod.Namespace, ref.Name); ss != nil {
				owner = ss.Spec.Selector
			}
		}
		if owner != nil && asSelector(owner).Matches(labels.Set(pod.Labels)) {
			for k, v := range owner.MatchLabels {
				out.MatchLabels[k] = v
			}
			out.MatchExpressions = owner.MatchExpressions
		}
	}
	if len(out.MatchLabels) == 0 && len(out.MatchExpressions) == 0 {
		return nil
	}
	return &out
}

func serviceSelector(obj client.Object) map[string]string {
	if service, ok := obj.(*corev1.Service); ok {
		return service.Spec.Selector
	}
	return nil
}
