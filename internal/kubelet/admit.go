package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/node"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
)

// admission remembers which new pods the node took. It decides one at a time:
// of two pods that ask together, the second sees what became of the first,
// before the API server does.
type admission struct {
	mu    sync.Mutex
	taken map[types.UID]bool // by uid, until the pod is gone; guarded by mu
}

// admit says whether the node takes a pod, as the last word after the
// scheduler's, which may have decided by old news, or may not have been asked.
// A pod that is running, from before a restart, is taken as it is.
func (k *Kubelet) admit(p *v1.Pod, running bool) *status.Failure {
	f := k.admitTo(k.node.Node(), p, running)
	if f == nil || f.Reason != affinityFailed && f.Reason != taintFailed {
		return f
	}
	// Labels and taints are others' to change: what is known of them may be
	// older than what the scheduler decided by.
	ctx, cancel := context.WithTimeout(context.Background(), askNode)
	defer cancel()
	o, err := k.opts.Client.Get(ctx, v1.SchemeGroupVersion.WithResource("nodes"), "", k.opts.NodeName)
	if n, ok := o.(*v1.Node); err == nil && ok {
		return k.admitTo(n, p, running)
	}
	return f
}

func (k *Kubelet) admitTo(n *v1.Node, p *v1.Pod, running bool) *status.Failure {
	return k.admission.decide(k.pods.List(""), p, func(others []*v1.Pod) *status.Failure {
		if running {
			return nil
		}
		return Admit(n, k.node.Allocatable(), others, p)
	})
}

// decide asks judge about p among those of pods that the node has taken and
// that have not ended. It remembers the answer; pods that are not in the list
// are forgotten.
func (a *admission) decide(pods []client.Object, p *v1.Pod, judge func(others []*v1.Pod) *status.Failure) *status.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := make(map[types.UID]bool, len(a.taken)+1)
	var others []*v1.Pod
	for _, o := range pods {
		q := o.(*v1.Pod)
		if a.taken[q.UID] {
			taken[q.UID] = true
		}
		if q.UID == p.UID || q.Status.Phase == v1.PodSucceeded || q.Status.Phase == v1.PodFailed {
			continue
		}
		if taken[q.UID] || q.Status.StartTime != nil {
			others = append(others, q)
		}
	}
	a.taken = taken
	f := judge(others)
	if f == nil {
		taken[p.UID] = true
	}
	return f
}

// askNode is how long a pod that seems not to belong here waits for the node's
// latest labels and taints.
const askNode = 10 * time.Second

const (
	affinityFailed = "NodeAffinity"
	taintFailed    = "TaintToleration"
)

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
		if _, ours := allocatable[name]; !ours && node.IsExtended(name) {
			continue // somebody else says on the node how much there is
		}
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
			return &status.Failure{Reason: affinityFailed, Message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
		}
		if t, untolerated := untolerated(n, p); untolerated {
			return &status.Failure{Reason: taintFailed, Message: fmt.Sprintf("Pod was rejected: Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
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
