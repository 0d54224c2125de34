package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Recorder tells people what a loop did, as events that `kubectl describe`
// shows. It never blocks and never fails: an event that cannot be written is
// lost.
type Recorder interface {
	// Event is about obj. eventType is corev1.EventTypeNormal or ...Warning.
	Event(obj Object, eventType, reason, format string, args ...any)
}

// Sourced is a Recorder that can record for more than one component.
type Sourced interface {
	Recorder
	// As records what the component of that name does.
	As(component string) Recorder
}

// NoEvents is a Recorder that records nothing.
var NoEvents Recorder = noEvents{}

type noEvents struct{}

func (noEvents) Event(Object, string, string, string, ...any) {}

// RecorderOptions of an EventRecorder.
type RecorderOptions struct {
	Client    Interface
	Component string // "deployment-controller": the source that people see
	Host      string // of a component on a node
	Logger    *slog.Logger
}

const (
	// eventQueue is how many events may wait to be written; more are lost.
	eventQueue = 4096
	// eventTries and eventPause are spent on an event when the server does not
	// answer.
	eventTries = 5
	eventPause = 2 * time.Second
	// maxMessage is as long as the server takes a message, in bytes.
	maxMessage = 1024
	cut        = "..."
)

// EventRecorder writes events. Events of one text become one with a count,
// many alike become one that says so, and an object about which there are too
// many is not heard for a while: see sieve.
//
// Events are queued and written by Run, one by one.
type EventRecorder struct {
	opts  RecorderOptions
	queue chan *corev1.Event
	sieve *sieve
	lost  atomic.Int64 // dropped since too many waited
	named atomic.Int64
}

// NewRecorder makes an EventRecorder; Run writes what it is told.
func NewRecorder(opts RecorderOptions) *EventRecorder {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &EventRecorder{opts: opts, queue: make(chan *corev1.Event, eventQueue), sieve: newSieve()}
}

// Event is Recorder's.
func (r *EventRecorder) Event(obj Object, eventType, reason, format string, args ...any) {
	r.EventAbout(ReferenceTo(obj), eventType, reason, format, args...)
}

// EventAbout is Event for what a reference names: a container of a pod.
func (r *EventRecorder) EventAbout(ref corev1.ObjectReference, eventType, reason, format string, args ...any) {
	r.eventOf(r.opts.Component, ref, eventType, reason, format, args...)
}

// As is Sourced's. What is recorded is written by the Run of r.
func (r *EventRecorder) As(component string) Recorder { return source{r, component} }

type source struct {
	recorder  *EventRecorder
	component string
}

func (s source) Event(obj Object, eventType, reason, format string, args ...any) {
	s.recorder.eventOf(s.component, ReferenceTo(obj), eventType, reason, format, args...)
}

func (r *EventRecorder) eventOf(component string, ref corev1.ObjectReference, eventType, reason, format string, args ...any) {
	now := metav1.Now()
	message := fmt.Sprintf(format, args...)
	if len(message) > maxMessage {
		message = message[:maxMessage-len(cut)] + cut
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			// Names are unique in time, and within one instant of virtual time.
			Name:      fmt.Sprintf("%s.%x", ref.Name, now.UnixNano()+r.named.Add(1)),
			Namespace: ref.Namespace,
		},
		InvolvedObject: ref, Type: eventType, Reason: reason, Message: message,
		Source:              corev1.EventSource{Component: component, Host: r.opts.Host},
		ReportingController: component, ReportingInstance: r.opts.Host,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	select {
	case r.queue <- event:
	default:
		r.lost.Add(1)
	}
}

// Run writes events until ctx ends. What waits then is lost.
func (r *EventRecorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-r.queue:
			r.record(ctx, event)
		}
	}
}

func (r *EventRecorder) record(ctx context.Context, event *corev1.Event) {
	w := r.sieve.pass(event, time.Now())
	if w == nil {
		return
	}
	for range eventTries {
		err := r.write(ctx, event, w.name)
		switch {
		case err == nil:
			return
		case apierrors.IsNotFound(err) && w.name != event.Name:
			w.name, w.count, w.first = event.Name, 1, event.LastTimestamp.Time // it has expired: begin anew
			event.Count, event.FirstTimestamp = 1, event.LastTimestamp
			continue
		case ctx.Err() != nil:
			return
		case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTooManyRequests(err) && !apierrors.IsServerTimeout(err):
			r.opts.Logger.Debug("event refused", "object", event.InvolvedObject.Name, "reason", event.Reason, "error", err)
			return // the server has answered; it would say the same again
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventPause):
		}
	}
}

// write creates an event, or counts up the one of that name.
func (r *EventRecorder) write(ctx context.Context, event *corev1.Event, name string) error {
	if name == event.Name {
		_, err := r.opts.Client.Create(ctx, Events, event)
		if apierrors.IsAlreadyExists(err) {
			return nil // an answer was lost
		}
		return err
	}
	patch, err := json.Marshal(map[string]any{"count": event.Count, "lastTimestamp": event.LastTimestamp, "message": event.Message})
	if err != nil {
		return err
	}
	_, err = r.opts.Client.Patch(ctx, Events, event.Namespace, name, types.MergePatchType, patch)
	return err
}
