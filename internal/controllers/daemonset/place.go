package daemonset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// nodeNameField is what the affinity of a daemon pod asks for.
const nodeNameField = "metadata.name"

// placer tells which nodes a DaemonSet is meant for.
type placer struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func newPlacer(set *appsv1.DaemonSet) placer {
	spec := &set.Spec.Template.Spec
	return placer{
		nodeName:    spec.NodeName,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		tolerations: tolerations(spec),
	}
}

// fits tells whether a pod ought to run on a node, and whether one that runs
// there may stay: a taint that keeps pods from being scheduled does not drive
// them out.
func (p placer) fits(node *corev1.Node) (wanted, stays bool) {
	if p.nodeName != "" && p.nodeName != node.Name {
		return false, false
	}
	if ok, err := p.affinity.Match(node); !ok || err != nil {
		return false, false
	}
	wanted, stays = true, true
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || p.tolerates(taint) {
			continue
		}
		wanted = false
		if taint.Effect == corev1.TaintEffectNoExecute {
			stays = false
		}
	}
	return wanted, stays
}

func (p placer) tolerates(taint *corev1.Taint) bool {
	return slices.ContainsFunc(p.tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, taint, false) })
}

// tolerations are the template's and those that every daemon pod has.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations.
func tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := slices.Clone(spec.Tolerations)
	add := func(key string, effect corev1.TaintEffect) {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
		i := slices.IndexFunc(all, func(had corev1.Toleration) bool { return had.MatchToleration(&t) })
		if i < 0 {
			all = append(all, t)
		} else {
			all[i] = t // without an end
		}
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return all
}

// pin makes a node the only one that an affinity allows. What else it required
// the node has met already.
func pin(affinity *corev1.Affinity, node string) *corev1.Affinity {
	affinity = affinity.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: nodeNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}}}},
	}
	return affinity
}

// nodeOf is the node that a pod is on, or that it was made for; "" when that
// cannot be told.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == nodeNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}
