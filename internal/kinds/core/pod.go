package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func pod() *kinds.Kind {
	split := strategy.Counted[corev1.Pod]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "pods"}, Kind: "Pod", Singular: "pod",
		ShortNames: []string{"po"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/pods/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Pod, corev1.PodList](v1, defaultPod)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            strategy.PrepareCreate(preparePod),
		PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
			mirrorServiceAccount(&obj.(*corev1.Pod).Spec)
			split.PrepareUpdate(ctx, obj, old)
		},
		Validate:       strategy.Validate(validatePod),
		ValidateUpdate: strategy.ValidateUpdate(validatePodUpdate),
		Warnings:       strategy.Warnings(podWarnings),
		Grace:          func(obj kinds.Object, seconds *int64) (int64, bool) { return podGrace(obj.(*corev1.Pod), seconds) },
		Subresources: map[string]*kinds.Subresource{
			"attach":      {GroupVersionKind: v1.WithKind("PodAttachOptions"), Verbs: []string{"create", "get"}},
			"binding":     {GroupVersionKind: v1.WithKind("Binding"), Verbs: []string{"create"}},
			"eviction":    {GroupVersionKind: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, Verbs: []string{"create"}},
			"exec":        {GroupVersionKind: v1.WithKind("PodExecOptions"), Verbs: []string{"create", "get"}},
			"log":         {Verbs: []string{"get"}},
			"portforward": {GroupVersionKind: v1.WithKind("PodPortForwardOptions"), Verbs: []string{"create", "get"}},
			"proxy":       {GroupVersionKind: v1.WithKind("PodProxyOptions"), Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"ephemeralcontainers": {
				Verbs: strategy.View(),
				PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
					prepareEphemeralContainers(obj.(*corev1.Pod), old.(*corev1.Pod))
					split.PrepareUpdate(ctx, obj, old)
				},
				ValidateUpdate: strategy.ValidateUpdate(validateEphemeralContainersUpdate),
			},
			"resize": {
				Verbs: strategy.View(),
				PrepareUpdate: func(ctx context.Context, obj, old kinds.Object) {
					prepareResize(obj.(*corev1.Pod), old.(*corev1.Pod))
					split.PrepareUpdate(ctx, obj, old)
				},
				ValidateUpdate: strategy.ValidateUpdate(validateResize),
			},
			"status": {
				Verbs:          strategy.View(),
				PrepareUpdate:  strategy.PrepareUpdate(preparePodStatus),
				ValidateUpdate: strategy.ValidateUpdate(validatePodStatus),
			},
		},
		SelectableFields: strategy.Fields(podFields),
		FieldNames: []string{
			"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
			"status.phase", "status.podIP", "status.nominatedNodeName",
		},
		Columns: podColumns(),
	}
}

func podFields(pod *corev1.Pod) fields.Set {
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         text(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             ip,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

func text(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// preparePod starts a pod's status and writes down what its selectors mean.
func preparePod(pod *corev1.Pod) {
	pod.Generation = 1
	mirrorServiceAccount(&pod.Spec)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QOSClass(&pod.Spec)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			mergePodTerms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			mergePodTerms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		mergeLabelKeys(pod, c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

func mergePodTerms(pod *corev1.Pod, must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm) {
	for i := range must {
		mergePodTerm(pod, &must[i])
	}
	for i := range may {
		mergePodTerm(pod, &may[i].PodAffinityTerm)
	}
}

func mergePodTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm) {
	mergeLabelKeys(pod, t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	mergeLabelKeys(pod, t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
}

// mergeLabelKeys adds to a selector that the labels called keys are, or are
// not, the pod's own: the scheduler then needs to know of no keys.
func mergeLabelKeys(pod *corev1.Pod, sel *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
	if sel == nil {
		return
	}
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			sel.MatchExpressions = append(sel.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}

// podGrace is how long a pod may take to end. One that runs nowhere, or has
// ended already, goes at once.
func podGrace(pod *corev1.Pod, seconds *int64) (int64, bool) {
	var grace int64
	switch {
	case seconds != nil:
		grace = *seconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		grace = 0
	}
	if grace < 0 {
		grace = 1
	}
	return grace, grace > 0
}

// podWarnings of a new pod; people seldom change one by hand.
func podWarnings(pod, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var out []string
	if bad := validation.IsDNS1123Label(pod.Name); len(bad) > 0 {
		out = append(out, "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: ["+join(bad)+"]")
	}
	return append(out, podSpecWarnings(&pod.Spec, nil)...)
}

func join(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += " "
		}
		out += s
	}
	return out
}
