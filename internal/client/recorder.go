package client

// Recorder tells people what a loop did, as events that `kubectl describe`
// shows. It never blocks and never fails: an event that cannot be written is
// lost.
type Recorder interface {
	// Event is about obj. eventType is corev1.EventTypeNormal or ...Warning.
	Event(obj Object, eventType, reason, format string, args ...any)
}

// NoEvents is a Recorder that records nothing.
var NoEvents Recorder = noEvents{}

type noEvents struct{}

func (noEvents) Event(Object, string, string, string, ...any) {}
