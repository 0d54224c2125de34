package scheduler

import (
	"cmp"
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
	reasonEnforced      = "node(s) didn't match scheduler-enforced node affinity"
	reasonAffinity      = "node(s) didn't match Pod's node affinity/selector"
	reasonPorts         = "node(s) didn't have free ports for the requested pod ports"
	reasonTooManyPods   = "Too many pods"
	reasonName          = "node(s) didn't match the requested node name"
)

var unschedulableTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// fits reports whether a pod may be placed on a node, but for the rules about
// other pods. It is the hot path: it allocates nothing.
func fits(p *podInfo, n *nodeInfo) bool {
	return may(p, n) && portsFree(p, n) && hasRoom(p, n) && beside(p, n) == ""
}

// may is fits without what depends on the pods of the node: what it refuses, no
// pod can make room for.
func may(p *podInfo, n *nodeInfo) bool {
	return named(p, n) && schedulable(p, n) && untolerated(p, n) == nil && enforced(p, n) && matches(p, n) &&
		(len(p.profile.filters) == 0 || p.profile.refusedBy(p.pod, n) == "") &&
		(p.needs == nil || p.needs.Refuses(n.node) == "")
}

// explain says why fits refused.
func explain(p *podInfo, n *nodeInfo) []string {
	if !named(p, n) {
		return []string{reasonName}
	}
	if !schedulable(p, n) {
		return []string{reasonUnschedulable}
	}
	if taint := untolerated(p, n); taint != nil {
		return []string{fmt.Sprintf("node(s) had untolerated taint {%s: %s}", taint.Key, taint.Value)}
	}
	if !enforced(p, n) {
		return []string{reasonEnforced}
	}
	if !matches(p, n) {
		return []string{reasonAffinity}
	}
	if reason := p.profile.refusedBy(p.pod, n); reason != "" {
		return []string{reason}
	}
	if !portsFree(p, n) {
		return []string{reasonPorts}
	}
	if reasons := shortOf(p, n); len(reasons) > 0 {
		return reasons
	}
	if reason := cmp.Or(beside(p, n), p.needs.Refuses(n.node)); reason != "" {
		return []string{reason}
	}
	return nil
}

func named(p *podInfo, n *nodeInfo) bool {
	return p.pod.Spec.NodeName == "" || p.pod.Spec.NodeName == n.name
}

// schedulable: a cordoned node takes only pods that tolerate its being so.
func schedulable(p *podInfo, n *nodeInfo) bool {
	return !n.unschedulable || p.profile.without&withoutUnschedulable != 0 || tolerates(p, &unschedulableTaint)
}

func tolerates(p *podInfo, taint *corev1.Taint) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Logger{}, p.pod.Spec.Tolerations, taint, true)
}

func untolerated(p *podInfo, n *nodeInfo) *corev1.Taint {
	if p.profile.without&withoutTaints != 0 {
		return nil
	}
	for i := range n.hardTaints {
		if !tolerates(p, &n.hardTaints[i]) {
			return &n.hardTaints[i]
		}
	}
	return nil
}

func matches(p *podInfo, n *nodeInfo) bool {
	if p.profile.without&withoutAffinity != 0 {
		return true
	}
	if p.bound != "" && p.bound != n.name {
		return false
	}
	if p.required == nil {
		return true
	}
	if s := p.selected; s != nil && !s.dropped {
		return s.matches(n)
	}
	ok, err := p.required.Match(n.node)
	return ok && err == nil
}

func portsFree(p *podInfo, n *nodeInfo) bool {
	if p.profile.without&withoutPorts != 0 {
		return true
	}
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
	if p.profile.without&withoutResources != 0 {
		return true
	}
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
		if v > 0 && v > n.allocatable.scalar[name]-n.requested.scalar[name] && !p.profile.ignores(name) {
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
		if p.profile.ignores(name) {
			continue
		}
		short(name, v, n.allocatable.scalar[name]-n.requested.scalar[name])
	}
	return reasons
}
