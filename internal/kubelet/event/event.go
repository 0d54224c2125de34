// Package event records what happens to pods and the node as Events, as
// upstream's kubelet words them. Events of the same object, reason and message
// are counted in one Event, and a storm of them is held back.
//
// Concurrency: a Recorder may be used from many goroutines; one goroutine, Run,
// writes. Record never blocks: when the queue is full the event is lost, for
// events are best effort.
//
// Failure: a write that fails is dropped.
package event

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

var resource = v1.SchemeGroupVersion.WithResource("events")

const (
	queued = 1000 // events that wait to be written
	kept   = 4096 // kinds of events whose counts are remembered
	// An object may bring a burst of events, after that one in refill.
	burst  = 25
	refill = 5 * time.Minute
)

// Recorder records events of one node.
type Recorder struct {
	client client.Interface
	node   string
	log    *slog.Logger
	queue  chan v1.Event

	// Owned by Run.
	seen    map[key]*v1.Event
	buckets map[string]*bucket
}

type key struct {
	object v1.ObjectReference
	kind   string
	reason string
	msg    string
}

type bucket struct {
	tokens float64
	at     time.Time
}

// New makes a Recorder; Run writes what it records.
func New(c client.Interface, node string, log *slog.Logger) *Recorder {
	return &Recorder{client: c, node: node, log: log, queue: make(chan v1.Event, queued),
		seen: map[key]*v1.Event{}, buckets: map[string]*bucket{}}
}

// Pod records an event of a pod, or of one of its containers when container is
// not empty.
func (r *Recorder) Pod(pod *v1.Pod, container, kind, reason, format string, args ...any) {
	ref := v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name,
		UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	if container != "" {
		ref.FieldPath = fieldPath(pod, container)
	}
	r.record(ref, kind, reason, fmt.Sprintf(format, args...))
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
	ref := v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}
	r.record(ref, kind, reason, fmt.Sprintf(format, args...))
}

func (r *Recorder) record(ref v1.ObjectReference, kind, reason, msg string) {
	now := metav1.Now()
	ns := ref.Namespace
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	if len(msg) > 1024 {
		msg = msg[:1021] + "..."
	}
	e := v1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("%s.%x", ref.Name, now.UnixNano())},
		InvolvedObject:      ref,
		Reason:              reason,
		Message:             msg,
		Source:              v1.EventSource{Component: "kubelet", Host: r.node},
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                kind,
		ReportingController: "kubelet",
		ReportingInstance:   r.node,
	}
	select {
	case r.queue <- e:
	default:
	}
}

// Run writes what is recorded until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.queue:
			r.write(ctx, e)
		}
	}
}

func (r *Recorder) write(ctx context.Context, e v1.Event) {
	if !r.allow(e) {
		return
	}
	k := key{object: e.InvolvedObject, kind: e.Type, reason: e.Reason, msg: e.Message}
	k.object.ResourceVersion = ""
	if had := r.seen[k]; had != nil {
		if err := r.count(ctx, had, e.LastTimestamp); err == nil {
			return
		} else if !apierrors.IsNotFound(err) {
			r.log.Debug("event lost", "reason", e.Reason, "error", err)
			return
		}
	}
	if _, err := r.client.Create(ctx, resource, &e); err != nil {
		r.log.Debug("event lost", "reason", e.Reason, "error", err)
		return
	}
	if len(r.seen) >= kept {
		clear(r.seen)
	}
	r.seen[k] = &e
}

// count adds one to an event that is there.
func (r *Recorder) count(ctx context.Context, had *v1.Event, at metav1.Time) error {
	patch, err := json.Marshal(map[string]any{"count": had.Count + 1, "lastTimestamp": at})
	if err != nil {
		return err
	}
	if _, err = r.client.Patch(ctx, resource, had.Namespace, had.Name, types.MergePatchType, patch); err != nil {
		return err
	}
	had.Count++
	return nil
}

// allow holds back a storm of one object's events.
func (r *Recorder) allow(e v1.Event) bool {
	id := e.InvolvedObject.Kind + "/" + e.Namespace + "/" + string(e.InvolvedObject.UID) + "/" + e.InvolvedObject.FieldPath
	b := r.buckets[id]
	if b == nil {
		if len(r.buckets) >= kept {
			clear(r.buckets)
		}
		b = &bucket{tokens: burst, at: e.LastTimestamp.Time}
		r.buckets[id] = b
	}
	b.tokens = min(burst, b.tokens+e.LastTimestamp.Sub(b.at).Seconds()/refill.Seconds())
	b.at = e.LastTimestamp.Time
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
