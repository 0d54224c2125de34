// Package event records what happens to pods and the node as Events, as
// upstream's kubelet words them.
//
// Concurrency and failure: as client.EventRecorder, which it stands on.
package event

import (
	"context"
	"fmt"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Recorder records events of one node.
type Recorder struct {
	node     string
	recorder *client.EventRecorder
}

// New makes a Recorder; Run writes what it records.
func New(c client.Interface, node string, log *slog.Logger) *Recorder {
	return &Recorder{node: node, recorder: client.NewRecorder(client.RecorderOptions{
		Client: c, Component: "kubelet", Host: node, Logger: log})}
}

// Run writes what is recorded until ctx ends.
func (r *Recorder) Run(ctx context.Context) { r.recorder.Run(ctx) }

// Pod records an event of a pod, or of one of its containers when container is
// not empty.
func (r *Recorder) Pod(pod *v1.Pod, container, kind, reason, format string, args ...any) {
	ref := client.ReferenceTo(pod)
	if container != "" {
		ref.FieldPath = fieldPath(pod, container)
	}
	r.recorder.EventAbout(ref, kind, reason, format, args...)
}

func fieldPath(pod *v1.Pod, container string) string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return fmt.Sprintf("spec.initContainers{%s}", container)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return fmt.Sprintf("spec.ephemeralContainers{%s}", container)
		}
	}
	return fmt.Sprintf("spec.containers{%s}", container)
}

// Node records an event of the node.
func (r *Recorder) Node(kind, reason, format string, args ...any) {
	// Upstream's kubelet gives the node's name as UID, and kubectl describe
	// looks for that.
	r.recorder.EventAbout(v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}, kind, reason, format, args...)
}
