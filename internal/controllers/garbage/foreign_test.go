package garbage_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
)

// What another server serves goes with its owner, and holds back an owner that
// waits for it, like anything else.
func TestWhatOtherServersServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, _ := apitest.Behind(t, nil)
		w := &controllertest.World{TB: t, Client: front.Client("tester")}
		owner := w.Create(client.ConfigMaps, owned("owner")).(*corev1.ConfigMap)
		for name, finalizers := range map[string][]string{"plain": nil, "held": {"example.com/hold"}} {
			revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Finalizers: finalizers,
				OwnerReferences: []metav1.OwnerReference{refTo(owner)},
			}, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{}`)}}
			w.Create(client.ControllerRevisions, revision)
		}
		defer controllertest.Turn(garbage.New(controllers.Options{Client: front.Client("loops")}))()
		time.Sleep(time.Minute)
		w.Delete(client.ConfigMaps, "default", "owner", deleting(metav1.DeletePropagationForeground))
		time.Sleep(time.Minute)
		if w.Get(client.ControllerRevisions, "default", "plain") != nil {
			t.Error("a dependent outlives its owner")
		}
		if w.Get(client.ConfigMaps, "default", "owner") == nil {
			t.Error("an owner does not wait for what blocks it")
		}
		w.Edit(client.ControllerRevisions, "default", "held", func(obj client.Object) { obj.SetFinalizers(nil) })
		time.Sleep(time.Minute)
		if w.Get(client.ControllerRevisions, "default", "held") != nil || w.Get(client.ConfigMaps, "default", "owner") != nil {
			t.Error("an owner waits for what is gone")
		}
	})
}
