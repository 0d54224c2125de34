package storagemigration_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/storagemigration"
)

func migration(name, group, resource string) *storagemigrationv1.StorageVersionMigration {
	return &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	}
}

// line is a migration's conditions: those that hold with a "+".
func line(obj client.Object) string {
	m := obj.(*storagemigrationv1.StorageVersionMigration)
	text := m.Name + ":"
	for _, c := range m.Status.Conditions {
		sign := "+"
		if c.Status != metav1.ConditionTrue {
			sign = "-"
		}
		text += fmt.Sprint(" ", sign, c.Type, "(", c.Reason, ")", c.Message)
	}
	return text + fmt.Sprint(" at ", m.Status.ResourceVersion != "")
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{storagemigration.New(o)}
		},
		Start: func(w *controllertest.World) {
			for i := range 1 + w.Rand.IntN(4) {
				w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}})
			}
			w.Create(storagemigration.Migrations, migration("maps", "", "configmaps"))
			w.Create(storagemigration.Migrations, migration("none", "apps", "deployments"))
			w.Create(storagemigration.Migrations, migration("unknown", "example.com", "things"))
			w.Create(storagemigration.Migrations, migration("reviews", "authorization.k8s.io", "subjectaccessreviews"))
		},
		Meanwhile: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}})
			w.Delete(client.ConfigMaps, "default", "c0", metav1.DeleteOptions{})
		},
		End: func(w *controllertest.World) string { return w.Lines(storagemigration.Migrations, line) },
		Check: func(w *controllertest.World) error {
			const running, failed = "-Running(StorageVersionMigrationInProgress)", "+Failed(StorageVersionMigrationFailed)nobody serves "
			for name, want := range map[string]string{
				"maps":    "maps: " + running + " +Succeeded(StorageVersionMigrationSucceeded) at true",
				"none":    "none: " + running + " +Succeeded(StorageVersionMigrationSucceeded) at true",
				"unknown": "unknown: " + running + " " + failed + "things.example.com, or not so that it can be listed and changed at false",
				"reviews": "reviews: " + running + " " + failed + "subjectaccessreviews.authorization.k8s.io, or not so that it can be listed and changed at false",
			} {
				if got := line(w.Get(storagemigration.Migrations, "", name)); got != want {
					return fmt.Errorf("%q, want %q", got, want)
				}
			}
			return nil
		},
	})
}
