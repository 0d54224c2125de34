package client

import (
	corev1 "k8s.io/api/core/v1"
)

// ByNode indexes pods by the node they are bound to.
const ByNode = "node"

// IndexByNode adds the ByNode index to a view of pods.
func IndexByNode(v View) { v.Index(ByNode, nodeOf) }

func nodeOf(obj Object) []string {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}
