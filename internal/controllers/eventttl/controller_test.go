package eventttl_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/eventttl"
)

func event(name string, last time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web", APIVersion: "v1"},
		Reason:         "BackOff", Message: "again", Type: "Warning", Count: 1,
		FirstTimestamp: metav1.NewTime(last), LastTimestamp: metav1.NewTime(last),
	}
}

// Events go a minute after they last happened, those that happen again later.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{eventttl.New(o, time.Minute)}
		},
		Start: func(w *controllertest.World) {
			for i := range w.Rand.IntN(5) {
				w.Create(client.Events, event(fmt.Sprint("old-", i), time.Now()))
			}
			w.Create(client.Events, event("lasting", time.Now().Add(24*time.Hour)))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Edit(client.Events, "default", "old-0", func(obj client.Object) {
				obj.(*corev1.Event).LastTimestamp = metav1.NewTime(time.Now().Add(24 * time.Hour))
			})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Events, func(obj client.Object) string { return obj.GetName() })
		},
		Check: func(w *controllertest.World) error {
			if w.Get(client.Events, "default", "lasting") == nil || w.Get(client.Events, "default", "old-1") != nil {
				return fmt.Errorf("the wrong events are left")
			}
			return nil
		},
	})
}
