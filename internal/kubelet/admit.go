package kubelet

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// admit says whether the node takes a pod, as the last word after the
// scheduler's, which may have decided by old news, or may not have been asked.
func (k *Kubelet) admit(p *v1.Pod) *status.Failure {
	var others []*v1.Pod
	for _, o := range k.pods.List("") {
		q := o.(*v1.Pod)
		// Those that started before count; of two new ones the one that asks
		// first has a start time when the other asks only once it is written,
		// so the older pod counts as well.
		if q.UID == p.UID || q.Status.Phase == v1.PodSucceeded || q.Status.Phase == v1.PodFailed {
			continue
		}
		if q.Status.StartTime != nil || before(q, p) {
			others = append(others, q)
		}
	}
	return Admit(k.node.Node(), k.node.Allocatable(), others, p)
}

func before(a, b *v1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// Admit says why a node with these pods cannot take one more, or nil. The
// reasons are upstream's.
func Admit(n *v1.Node, allocatable v1.ResourceList, others []*v1.Pod, p *v1.Pod) *status.Failure {
	if max, ok := allocatable[v1.ResourcePods]; ok && int64(len(others))+1 > max.Value() {
		return lacking("pods", 1, int64(len(others)), max.Value())
	}
	used := v1.ResourceList{}
	for _, q := range others {
		for name, v := range resourcehelper.PodRequests(q, resourcehelper.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(v)
			used[name] = sum
		}
	}
	for name, want := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		if want.IsZero() {
			continue
		}
		have, sum := allocatable[name], used[name]
		if name == v1.ResourceCPU {
			if sum.MilliValue()+want.MilliValue() > have.MilliValue() {
				return lacking(string(name), want.MilliValue(), sum.MilliValue(), have.MilliValue())
			}
		} else if sum.Value()+want.Value() > have.Value() {
			return lacking(string(name), want.Value(), sum.Value(), have.Value())
		}
	}
	if n != nil {
		if fits, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !fits {
			return &status.Failure{Reason: "NodeAffinity", Message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
		}
		if t, untolerated := untolerated(n, p); untolerated {
			return &status.Failure{Reason: "TaintToleration", Message: fmt.Sprintf("Pod was rejected: Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
		}
	}
	for _, q := range others {
		if portsClash(q, p) {
			return &status.Failure{Reason: "NodePorts", Message: "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
		}
	}
	return nil
}

func lacking(name string, want, used, capacity int64) *status.Failure {
	return &status.Failure{Reason: "OutOf" + name,
		Message: fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, want, used, capacity)}
}

// untolerated looks for a taint that forbids running at all.
func untolerated(n *v1.Node, p *v1.Pod) (v1.Taint, bool) {
	for _, t := range n.Spec.Taints {
		if t.Effect != v1.TaintEffectNoExecute {
			continue
		}
		if !tolerated(&t, p.Spec.Tolerations) {
			return t, true
		}
	}
	return v1.Taint{}, false
}

func tolerated(t *v1.Taint, tolerations []v1.Toleration) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Background(), t, true) {
			return true
		}
	}
	return false
}

// hostPort is a port of the node that a pod takes.
type hostPort struct {
	ip, proto string
	port      int32
}

func hostPorts(p *v1.Pod) []hostPort {
	var out []hostPort
	add := func(cs []v1.Container) {
		for i := range cs {
			for _, cp := range cs[i].Ports {
				port := cp.HostPort
				if port == 0 && p.Spec.HostNetwork {
					port = cp.ContainerPort
				}
				if port == 0 {
					continue
				}
				h := hostPort{cp.HostIP, string(cp.Protocol), port}
				if h.ip == "" || h.ip == "::" {
					h.ip = "0.0.0.0"
				}
				h.proto = strings.ToUpper(h.proto)
				if h.proto == "" {
					h.proto = "TCP"
				}
				out = append(out, h)
			}
		}
	}
	add(p.Spec.Containers)
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; status.IsSidecar(c) {
			add(p.Spec.InitContainers[i : i+1])
		}
	}
	return out
}

func portsClash(a, b *v1.Pod) bool {
	for _, x := range hostPorts(a) {
		for _, y := range hostPorts(b) {
			if x.port == y.port && x.proto == y.proto && (x.ip == y.ip || x.ip == "0.0.0.0" || y.ip == "0.0.0.0") {
				return true
			}
		}
	}
	return false
}
