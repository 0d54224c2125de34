package namespace_test

import (
	"strings"
	"sync/atomic"
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
	"github.com/setpoint-project/setpoint/internal/controllers/namespace"
)

// A namespace is emptied of what another server serves. While that does not
// answer, the rest goes, and the namespace says whom it waits for.
func TestWhatOtherServersServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stale atomic.Bool
		front, behind := apitest.Behind(t, func(infos []client.ResourceInfo) []client.ResourceInfo {
			for i := range infos {
				infos[i].Stale = stale.Load()
			}
			return infos
		})
		behind.Namespace(t, "goes")
		w := &controllertest.World{TB: t, Client: front.Client("tester")}
		w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "goes"}})
		w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "goes", Name: "c"}})
		w.Create(client.ControllerRevisions, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "goes", Name: "r"}, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{}`)}})
		l := namespace.New(controllers.Options{Client: front.Client("loops")})
		defer controllertest.Turn(l)()

		stale.Store(true)
		w.Delete(client.Namespaces, "", "goes", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		if w.Get(client.ConfigMaps, "goes", "c") != nil {
			t.Error("what can be deleted is not")
		}
		ns, _ := w.Get(client.Namespaces, "", "goes").(*corev1.Namespace)
		if ns == nil {
			t.Fatal("the namespace goes, though nobody knows what is in it")
		}
		const why = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: apps/v1: stale GroupVersion discovery: apps/v1"
		told := false
		for _, c := range ns.Status.Conditions {
			told = told || c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue && c.Message == why
		}
		if !told {
			t.Errorf("conditions %+v, want %q", ns.Status.Conditions, why)
		}
		if gaps := l.Gaps(); len(gaps) != 1 || !strings.Contains(gaps[0].Reason, "apps/v1") {
			t.Errorf("gaps %+v", gaps)
		}
		stale.Store(false)
		time.Sleep(time.Minute)
		if w.Get(client.ControllerRevisions, "goes", "r") != nil || w.Get(client.Namespaces, "", "goes") != nil {
			t.Error("the namespace stays, or what is in it")
		}
	})
}
