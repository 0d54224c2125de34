package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

// eventFields names what an event is about both ways: as the core group does
// and as events.k8s.io does.
func eventFields(e *corev1.Event) fields.Set {
	about := &e.InvolvedObject
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	set := fields.Set{
		"reason": e.Reason, "type": e.Type, "source": source,
		"reportingComponent": e.ReportingController, "reportingController": e.ReportingController,
	}
	for _, prefix := range [...]string{"involvedObject.", "regarding."} {
		set[prefix+"kind"] = about.Kind
		set[prefix+"namespace"] = about.Namespace
		set[prefix+"name"] = about.Name
		set[prefix+"uid"] = string(about.UID)
		set[prefix+"apiVersion"] = about.APIVersion
		set[prefix+"resourceVersion"] = about.ResourceVersion
		set[prefix+"fieldPath"] = about.FieldPath
	}
	return set
}

// Limits of what an event of the new form may say.
const (
	maxEventText = 128
	maxEventNote = 1024
)

func validateEvent(e *corev1.Event) field.ErrorList {
	var c check.Errors
	about := func(matches bool) {
		if !matches {
			c.Invalid(field.NewPath("involvedObject"), "namespace", e.InvolvedObject.Namespace, "does not match event.namespace")
		}
	}
	namespaced := e.InvolvedObject.Namespace != ""
	if e.EventTime.IsZero() { // the old form
		if namespaced {
			about(e.Namespace == e.InvolvedObject.Namespace)
		} else {
			about(e.Namespace == "" || e.Namespace == metav1.NamespaceDefault)
		}
	} else {
		if !namespaced {
			about(e.Namespace == metav1.NamespaceDefault || e.Namespace == metav1.NamespaceSystem)
		}
		c.NotEmpty(field.NewPath("reportingController"), "", e.ReportingController)
		c.Qualified(field.NewPath("reportingController"), "", e.ReportingController)
		for _, f := range [...]struct{ name, value string }{
			{"reportingInstance", e.ReportingInstance}, {"action", e.Action}, {"reason", e.Reason},
		} {
			c.NotEmpty(field.NewPath(f.name), "", f.value)
			if len(f.value) > maxEventText {
				c.Invalid(field.NewPath(f.name), "", "", fmt.Sprintf("can have at most %v characters", maxEventText))
			}
		}
		if len(e.Message) > maxEventNote {
			c.Invalid(field.NewPath("message"), "", "", fmt.Sprintf("can have at most %v characters", maxEventNote))
		}
	}
	c.Subdomain(field.NewPath("namespace"), "", e.Namespace)
	return c.List
}

func eventColumns() []kinds.Column {
	doc := corev1.Event{}.SwaggerDoc()
	object := corev1.ObjectReference{}.SwaggerDoc()
	name := strategy.Name()
	name.Priority = 1
	return []kinds.Column{
		strategy.Column("Last Seen", "string", doc["lastTimestamp"], func(e *corev1.Event) any { return lastSeen(e) }),
		strategy.Column("Type", "string", doc["type"], func(e *corev1.Event) any { return e.Type }),
		strategy.Column("Reason", "string", doc["reason"], func(e *corev1.Event) any { return e.Reason }),
		strategy.Column("Object", "string", doc["involvedObject"], func(e *corev1.Event) any {
			kind := strings.ToLower(e.InvolvedObject.Kind)
			if e.InvolvedObject.Name == "" {
				return kind
			}
			return kind + "/" + e.InvolvedObject.Name
		}),
		strategy.Wide("Subobject", "string", object["fieldPath"], func(e *corev1.Event) any { return e.InvolvedObject.FieldPath }),
		strategy.Wide("Source", "string", doc["source"], func(e *corev1.Event) any { return eventSource(e) }),
		strategy.Column("Message", "string", doc["message"], func(e *corev1.Event) any { return strings.TrimSpace(e.Message) }),
		strategy.Wide("First Seen", "string", doc["firstTimestamp"], func(e *corev1.Event) any { return firstSeen(e) }),
		strategy.Wide("Count", "string", doc["count"], func(e *corev1.Event) any { return eventCount(e) }),
		name,
	}
}

func firstSeen(e *corev1.Event) string {
	if e.FirstTimestamp.IsZero() {
		return strategy.Since(metav1.Time(e.EventTime))
	}
	return strategy.Since(e.FirstTimestamp)
}

func lastSeen(e *corev1.Event) string {
	switch {
	case e.Series != nil:
		return strategy.Since(metav1.Time(e.Series.LastObservedTime))
	case e.LastTimestamp.IsZero():
		return firstSeen(e)
	}
	return strategy.Since(e.LastTimestamp)
}

func eventCount(e *corev1.Event) int64 {
	switch {
	case e.Series != nil:
		return int64(e.Series.Count)
	case e.Count == 0:
		return 1 // an event of the new form that happened once
	}
	return int64(e.Count)
}

func eventSource(e *corev1.Event) string {
	component, host := e.Source.Component, e.Source.Host
	if component == "" {
		component = e.ReportingController
	}
	if host == "" {
		host = e.ReportingInstance
	}
	if host == "" {
		return component
	}
	return component + ", " + host
}
