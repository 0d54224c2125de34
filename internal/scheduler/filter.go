package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// The filters, in the order in which their reasons are given: the first that
// refuses a node is the one that counts. Reasons read as upstream's.
// https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
const (
	reasonUnschedulable = "node(s) were unschedulable"
	reasonAffinity      = "node(s) didn't match Pod's node affinity/selector"
	reasonPorts         = "node(s) didn't have free ports for the requested pod ports"
	reasonTooManyPods   = "Too many pods"
)

var unschedulableTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// fits reports whether a pod may be placed on a node. It is the hot path: it
// allocates nothing.
func fits(p *podInfo, n *nodeInfo) bool {
	return schedulable(p, n) && untolerated(p, n) == nil && matches(p, n) && portsFree(p, n) && hasRoom(p, n)
}

// explain says why fits refused.
func explain(p *podInfo, n *nodeInfo) []string {
	if !schedulable(p, n) {
		return []string{reasonUnschedulable}
	}
	if taint := untolerated(p, n); taint != nil {
		return []string{fmt.Sprintf("node(s) had untolerated taint {%s: %s}", taint.Key, taint.Value)}
	}
	if !matches(p, n) {
		return []string{reasonAffinity}
	}
	if !portsFree(p, n) {
		return []string{reasonPorts}
	}
	return shortOf(p, n)
}

// schedulable: a cordoned node takes only pods that tolerate its being so.
func schedulable(p *podInfo, n *nodeInfo) bool {
	return !n.unschedulable || tolerates(p, &unschedulableTaint)
}

func tolerates(p *podInfo, taint *corev1.Taint) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Logger{}, p.pod.Spec.Tolerations, taint, true)
}

func untolerated(p *podInfo, n *nodeInfo) *corev1.Taint {
	for i := range n.hardTaints {
		if !tolerates(p, &n.hardTaints[i]) {
			return &n.hardTaints[i]
		}
	}
	return nil
}

func matches(p *podInfo, n *nodeInfo) bool {
	if p.required == nil {
		return true
	}
	ok, err := p.required.Match(n.node)
	return ok && err == nil
}

func portsFree(p *podInfo, n *nodeInfo) bool {
	for _, want := range p.ports {
		for _, used := range n.ports {
			if want.conflicts(used) {
				return false
			}
		}
	}
	return true
}

func hasRoom(p *podInfo, n *nodeInfo) bool {
	if len(n.pods)+1 > n.maxPods {
		return false
	}
	r := &p.requests
	if r.milliCPU > 0 && r.milliCPU > n.allocatable.milliCPU-n.requested.milliCPU ||
		r.memory > 0 && r.memory > n.allocatable.memory-n.requested.memory ||
		r.ephemeral > 0 && r.ephemeral > n.allocatable.ephemeral-n.requested.ephemeral {
		return false
	}
	for name, v := range r.scalar {
		if v > 0 && v > n.allocatable.scalar[name]-n.requested.scalar[name] {
			return false
		}
	}
	return true
}

// shortOf lists what a node has too little of: every such resource counts.
func shortOf(p *podInfo, n *nodeInfo) []string {
	var reasons []string
	if len(n.pods)+1 > n.maxPods {
		reasons = append(reasons, reasonTooManyPods)
	}
	short := func(name corev1.ResourceName, want, free int64) {
		if want > 0 && want > free {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	r := &p.requests
	short(corev1.ResourceCPU, r.milliCPU, n.allocatable.milliCPU-n.requested.milliCPU)
	short(corev1.ResourceMemory, r.memory, n.allocatable.memory-n.requested.memory)
	short(corev1.ResourceEphemeralStorage, r.ephemeral, n.allocatable.ephemeral-n.requested.ephemeral)
	for name, v := range r.scalar {
		short(name, v, n.allocatable.scalar[name]-n.requested.scalar[name])
	}
	return reasons
}
