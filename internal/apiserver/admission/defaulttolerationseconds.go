package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// DefaultTolerationSeconds lets pods stay for five minutes on a node that is
// not ready or not reachable, unless they say otherwise.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds
type DefaultTolerationSeconds struct{ mutateOnly }

const defaultTolerationSeconds = 300

// Name implements Plugin.
func (*DefaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

// Admit implements Plugin.
func (*DefaultTolerationSeconds) Admit(_ context.Context, r *Request) error {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	if pod == nil || r.Operation == Delete {
		return nil
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if tolerates(pod.Spec.Tolerations, key) {
			continue
		}
		seconds := int64(defaultTolerationSeconds)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key:               key,
			Operator:          corev1.TolerationOpExists,
			Effect:            corev1.TaintEffectNoExecute,
			TolerationSeconds: &seconds,
		})
	}
	return nil
}

func tolerates(tolerations []corev1.Toleration, key string) bool {
	for _, t := range tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
