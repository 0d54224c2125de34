package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// judgement is what the podFailurePolicy says of a failed pod.
type judgement struct {
	counted bool                           // towards backoffLimit
	action  batchv1.PodFailurePolicyAction // "" when no rule matches
	message string                         // of FailJob
}

// judge finds the first rule that matches a failed pod.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy.
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) judgement {
	if policy == nil {
		return judgement{counted: true}
	}
	for i, rule := range policy.Rules {
		var what string
		switch {
		case rule.OnExitCodes != nil:
			if c := exitedBy(rule.OnExitCodes, pod); c != nil {
				what = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", c.Name, pod.Namespace, pod.Name, c.State.Terminated.ExitCode)
			}
		default:
			if c := metBy(rule.OnPodConditions, pod); c != nil {
				what = fmt.Sprintf("Pod %s/%s has condition %s", pod.Namespace, pod.Name, c.Type)
			}
		}
		if what == "" {
			continue
		}
		j := judgement{counted: rule.Action != batchv1.PodFailurePolicyActionIgnore, action: rule.Action}
		if rule.Action == batchv1.PodFailurePolicyActionFailJob {
			j.message = fmt.Sprintf("%s matching %s rule at index %d", what, rule.Action, i)
		}
		return j
	}
	return judgement{counted: true}
}

// exitedBy finds a container whose exit code the requirement asks for. Success
// never matches, not even NotIn.
func exitedBy(r *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.Pod) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 || r.ContainerName != nil && *r.ContainerName != c.Name {
				continue
			}
			if slices.Contains(r.Values, c.State.Terminated.ExitCode) == (r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return c
			}
		}
	}
	return nil
}

func metBy(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		for _, p := range patterns {
			if c.Type == p.Type && c.Status == p.Status {
				return c
			}
		}
	}
	return nil
}

// succeeds tells whether an Indexed Job has succeeded by its successPolicy, and
// by which rule.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy.
func succeeds(policy *batchv1.SuccessPolicy, completions int, done indexes) (message string, ok bool) {
	if policy == nil || len(done) == 0 {
		return "", false
	}
	for i, rule := range policy.Rules {
		have, need := done.total(), 0
		if rule.SucceededIndexes != nil {
			required := parseIndexes(*rule.SucceededIndexes, completions)
			have, need = required.common(done), required.total()
		}
		if rule.SucceededCount != nil {
			need = int(*rule.SucceededCount)
		}
		if have >= need {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
