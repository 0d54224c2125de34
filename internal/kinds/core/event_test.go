package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEventForms(t *testing.T) {
	now := metav1.NowMicro()
	e := &corev1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Related: &corev1.ObjectReference{Name: "r"},
		Reason: "R", Message: "M", Type: "Normal", Action: "A", EventTime: now, ReportingController: "c", ReportingInstance: "i",
		Source: corev1.EventSource{Component: "s"}, FirstTimestamp: metav1.Time(now), LastTimestamp: metav1.Time(now), Count: 3,
		Series: &corev1.EventSeries{Count: 2, LastObservedTime: now},
	}
	newer, err := eventFromHub(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := eventToHub(newer)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("through events.k8s.io (-want +got):\n%s", diff)
	}
	set := eventFields(e)
	if set["involvedObject.name"] != "p" || set["regarding.name"] != "p" || set["source"] != "s" {
		t.Errorf("fields %v", set)
	}
}
