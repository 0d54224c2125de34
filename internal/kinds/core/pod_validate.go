package core

import (
	"fmt"
	"math"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// wholePod checks what holds for a pod at any time.
func wholePod(pod *corev1.Pod) *specCheck {
	s := &specCheck{spec: &pod.Spec, meta: &pod.ObjectMeta, pod: true}
	validatePodAnnotations(&s.Errors, pod.Annotations, &pod.Spec, field.NewPath("metadata", "annotations"))
	path := field.NewPath("spec")
	s.validate(path)
	if pod.Spec.ServiceAccountName == "" {
		for i := range pod.Spec.Volumes {
			projected := pod.Spec.Volumes[i].Projected
			if projected == nil {
				continue
			}
			for j := range projected.Sources {
				if projected.Sources[j].ServiceAccountToken != nil {
					s.Forbidden(path.Child("volumes").Index(i).Child("projected", "sources").Index(j), "serviceAccountToken", "must not be specified when serviceAccountName is not set")
				}
			}
		}
	}
	return s
}

func validatePod(pod *corev1.Pod) field.ErrorList {
	s := wholePod(pod)
	path := field.NewPath("spec")
	if len(pod.Spec.EphemeralContainers) > 0 {
		s.Forbidden(path, "ephemeralContainers", "cannot be set on create")
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
		s.Forbidden(path, "nodeName", "cannot be set until all schedulingGates have been cleared")
	}
	s.profilesAgree(pod.Annotations, path)
	return s.List
}

// updatable are the fields of a pod's spec that may change, as the message
// tells them.
const updatable = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	s := wholePod(pod)
	validateAnnotationChange(&s.Errors, pod, old, field.NewPath("metadata", "annotations"))
	path := field.NewPath("spec")
	for _, list := range [...]struct {
		name     string
		new, old []corev1.Container
	}{
		{"containers", pod.Spec.Containers, old.Spec.Containers},
		{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(list.new) != len(list.old) {
			s.Forbidden(path, list.name, "pod updates may not add or remove containers")
			return s.List
		}
	}
	if !s.deadline(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, path) {
		return s.List
	}
	s.tolerationsKept(pod.Spec.Tolerations, old.Spec.Tolerations, path.Child("tolerations"))
	s.gatesOnlyGo(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, path.Child("schedulingGates"))
	if !apiequality.Semantic.DeepEqual(&pod.Spec, &old.Spec) {
		s.nothingElse(pod, old, path)
	}
	return s.List
}

// deadline may be set once and then only come nearer. It reports whether to go
// on checking.
func (s *specCheck) deadline(now, was *int64, path *field.Path) bool {
	const name = "activeDeadlineSeconds"
	switch {
	case now == nil && was != nil:
		s.Invalid(path, name, now, "must not update from a positive integer to nil value")
	case now == nil:
	case *now < 0 || *now > math.MaxInt32:
		s.Invalid(path, name, *now, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case was != nil && *was < *now:
		s.Invalid(path, name, *now, "must be less than or equal to previous value")
		return false
	}
	return true
}

func (s *specCheck) tolerationsKept(now, was []corev1.Toleration, path *field.Path) {
	for _, old := range was {
		kept := false
		for _, t := range now {
			old.TolerationSeconds = t.TolerationSeconds // which may change
			if kept = reflect.DeepEqual(old, t); kept {
				break
			}
		}
		if !kept {
			s.Forbidden(path, "", "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
}

func (s *specCheck) gatesOnlyGo(now, was []corev1.PodSchedulingGate, path *field.Path) {
	var old check.Unique[string]
	for _, gate := range was {
		old.Seen(gate.Name)
	}
	for i, gate := range now {
		if !old.Has(gate.Name) {
			s.Forbidden(path.Index(i), "name", fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name))
		}
	}
}

// nothingElse compares the specs with all that may change made equal.
func (s *specCheck) nothingElse(pod, old *corev1.Pod, path *field.Path) {
	spec := pod.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	spec.SchedulingGates = old.Spec.SchedulingGates
	spec.Tolerations = old.Spec.Tolerations
	if g := old.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 && spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 1 {
		spec.TerminationGracePeriodSeconds = g
	}
	if len(old.Spec.SchedulingGates) > 0 {
		s.gatedChanges(spec, &old.Spec, path)
	}
	if !apiequality.Semantic.DeepEqual(spec, &old.Spec) {
		s.Forbidden(path, "", fmt.Sprintf("pod updates may not change fields other than %s\n%v", updatable, diff.Diff(old.Spec, *spec)))
	}
}

// gatedChanges: the choice of nodes of a pod that waits at a gate may be
// narrowed. Changes spec to have old's choice.
func (s *specCheck) gatedChanges(spec, old *corev1.PodSpec, path *field.Path) {
	if !apiequality.Semantic.DeepEqual(spec.NodeSelector, old.NodeSelector) {
		for key, value := range old.NodeSelector {
			if now, ok := spec.NodeSelector[key]; !ok || now != value {
				s.Invalid(path, "nodeSelector", spec.NodeSelector, "only additions are allowed (no mutations or deletions)")
				break
			}
		}
		spec.NodeSelector = old.NodeSelector
	}
	var now, was *corev1.NodeAffinity
	if spec.Affinity != nil {
		now = spec.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		was = old.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(now, was) {
		return
	}
	s.affinityNarrowed(now, was, path.Child("affinity", "nodeAffinity"))
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: was}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = was
	}
}

func (s *specCheck) affinityNarrowed(now, was *corev1.NodeAffinity, path *field.Path) {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	path = path.Child(required, "nodeSelectorTerms")
	before := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var after []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		after = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(before) > 0 && len(after) != len(before) {
		s.Invalid(path, "", after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range before {
		b, a := &before[i], &after[i]
		if len(b.MatchExpressions)+len(b.MatchFields) == 0 {
			if len(a.MatchExpressions)+len(a.MatchFields) > 0 {
				s.Invalid(path.Index(i), "", *a, "only additions are allowed (no mutations or deletions)")
			}
			continue
		}
		if !startsWith(a.MatchExpressions, b.MatchExpressions) || !startsWith(a.MatchFields, b.MatchFields) {
			s.Invalid(path.Index(i), "", *a, "only additions are allowed (no mutations or deletions)")
		}
	}
}

func startsWith(list, prefix []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(prefix) && apiequality.Semantic.DeepEqual(list[:len(prefix)], prefix[:len(prefix):len(prefix)])
}
