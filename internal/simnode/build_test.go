package simnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// makePod returns a bound pod with one container.
func makePod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid", Generation: 1},
		Spec:       corev1.PodSpec{NodeName: "sim-0", RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "app:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// run takes the pod to where it runs.
func run(p *corev1.Pod) {
	if st := running(p, []string{"10.0.0.1"}, []string{"10.1.0.1"}, now); st != nil {
		p.Status = *st
	}
}

func annotate(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func restart(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func deleted(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(now)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

func condition(p *corev1.PodStatus, t corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.PodCondition{}
}
