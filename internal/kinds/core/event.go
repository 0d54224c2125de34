package core

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// event is one kind in two groups: "" for the old recorders, events.k8s.io for
// the new ones. It is stored in the old form, as upstream stores it.
func event() *kinds.Kind {
	newer := strategy.Version[eventsv1.Event, eventsv1.EventList](eventsv1.SchemeGroupVersion, nil)
	newer.ToHub, newer.FromHub = eventToHub, eventFromHub
	return &kinds.Kind{
		Resource: v1.WithResource("events").GroupResource(), Kind: "Event", Singular: "event",
		ShortNames: []string{"ev"}, Namespaced: true,
		StoragePrefix: "/registry/events/",
		Versions: []kinds.Version{
			strategy.Version[corev1.Event, corev1.EventList](v1, nil),
			newer,
		},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateEvent),
		ValidateUpdate:           strategy.ValidateUpdate(func(e, _ *corev1.Event) field.ErrorList { return validateEvent(e) }),
		SelectableFields:         strategy.Fields(eventFields),
		FieldNames: []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
			"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
			"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
			"reason", "reportingComponent", "reportingController", "source", "type",
		},
		Columns: eventColumns(),
	}
}

func eventToHub(obj kinds.Object) (kinds.Object, error) {
	in := obj.(*eventsv1.Event).DeepCopy()
	out := &corev1.Event{
		ObjectMeta: in.ObjectMeta, InvolvedObject: in.Regarding, Related: in.Related,
		Reason: in.Reason, Message: in.Note, Type: in.Type, Action: in.Action, EventTime: in.EventTime,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		Source: in.DeprecatedSource, FirstTimestamp: in.DeprecatedFirstTimestamp,
		LastTimestamp: in.DeprecatedLastTimestamp, Count: in.DeprecatedCount,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Event"})
	return out, nil
}

func eventFromHub(obj kinds.Object) (kinds.Object, error) {
	in := obj.(*corev1.Event).DeepCopy()
	out := &eventsv1.Event{
		ObjectMeta: in.ObjectMeta, Regarding: in.InvolvedObject, Related: in.Related,
		Reason: in.Reason, Note: in.Message, Type: in.Type, Action: in.Action, EventTime: in.EventTime,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		DeprecatedSource: in.Source, DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp: in.LastTimestamp, DeprecatedCount: in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
	out.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("Event"))
	return out, nil
}
