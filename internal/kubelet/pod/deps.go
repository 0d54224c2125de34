package pod

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cgroup"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/dra"
	"github.com/setpoint-project/setpoint/internal/kubelet/env"
	"github.com/setpoint-project/setpoint/internal/kubelet/image"
	"github.com/setpoint-project/setpoint/internal/kubelet/object"
	"github.com/setpoint-project/setpoint/internal/kubelet/status"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// Resource is that of pods.
var Resource = v1.SchemeGroupVersion.WithResource("pods")

// Events is where workers tell what they do.
type Events interface {
	Pod(pod *v1.Pod, container, kind, reason, format string, args ...any)
}

// Deps are what all workers of a kubelet share.
type Deps struct {
	Runtime cri.Runtime
	Client  client.Interface
	// Pods are those bound to this node.
	Pods    client.View
	Images  *image.Puller
	Volumes *volume.Manager
	Devices *dra.Manager
	Cgroups *cgroup.Tree // nil: pods have no groups of their own
	Objects *object.Cache
	Events  Events
	// Services of a namespace, for service links.
	Services func(namespace string) []*v1.Service
	// Admit says whether the node takes a pod that is new to it; nil: it does.
	// One that is running, from before a restart, is taken in any case.
	Admit func(pod *v1.Pod, running bool) *status.Failure
	// Fits says why the node has no room for what a running pod is resized to;
	// nil: it has.
	Fits func(pod *v1.Pod) *status.Pending
	// Allocatable and Memory of the node.
	Allocatable v1.ResourceList
	Memory      int64

	Owner         string   // value of cri.LabelOwner
	HostIPs       []string // the node's; the first is of the cluster's primary family
	LogsDir       string
	ClusterDomain string
	ClusterDNS    []string
	ResolvConf    string
	SeccompDir    string

	Log     *slog.Logger
	Observe func(key loop.Key, o loop.Outcome, err error, took time.Duration) // may be nil
}

func (d *Deps) envFacts(ips []string) env.Pod {
	return env.Pod{IPs: ips, HostIPs: d.HostIPs, Allocatable: d.Allocatable}
}

func (d *Deps) envSources(pod *v1.Pod) env.Sources {
	return env.Sources{
		ConfigMap: d.Objects.ConfigMap,
		Secret:    d.Objects.Secret,
		Services:  d.Services,
		File:      func(vol, path, key string) (string, bool, error) { return fileVar(d.Volumes, pod, vol, path, key) },
	}
}

// references are the objects that a pod holds.
func references(pod *v1.Pod) []object.Ref {
	cms, secrets := volume.References(pod)
	var refs []object.Ref
	for _, n := range cms {
		refs = append(refs, object.Ref{Resource: object.ConfigMaps, Namespace: pod.Namespace, Name: n})
	}
	for _, n := range secrets {
		refs = append(refs, object.Ref{Resource: object.Secrets, Namespace: pod.Namespace, Name: n})
	}
	bundles, signers := volume.TrustReferences(pod)
	for _, n := range bundles {
		refs = append(refs, object.Ref{Resource: object.TrustBundles, Name: n})
	}
	for _, n := range signers {
		refs = append(refs, object.TrustBundlesOf(n))
	}
	return refs
}

// hold makes the objects a pod refers to those that are watched for it.
func (d *Deps) hold(ctx context.Context, pod *v1.Pod) { d.Objects.Hold(ctx, pod.UID, references(pod)) }

func (d *Deps) release(ctx context.Context, uid types.UID) { d.Objects.Hold(ctx, uid, nil) }
