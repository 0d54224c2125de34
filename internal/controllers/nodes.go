package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeReady is the node's Ready condition.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
