package rootca_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/rootca"
)

const bundle = "-----BEGIN CERTIFICATE-----\n"

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{rootca.New(o, []byte(bundle))}
		},
		Start: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: rootca.ConfigMap, Labels: map[string]string{"kept": "yes"}},
				Data:       map[string]string{"ca.crt": "of an older cluster", "more": "data"},
			})
		},
		Meanwhile: func(w *controllertest.World) {
			w.Create(client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
			w.Rest(2e9)
			w.Delete(client.ConfigMaps, "default", rootca.ConfigMap, metav1.DeleteOptions{})
			w.Edit(client.ConfigMaps, "kube-system", rootca.ConfigMap, func(obj client.Object) { obj.(*corev1.ConfigMap).Data = nil })
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.ConfigMaps, func(obj client.Object) string {
				cm := obj.(*corev1.ConfigMap)
				return fmt.Sprint(cm.Namespace, "/", cm.Name, cm.Data, cm.Labels, cm.Annotations)
			})
		},
		Check: func(w *controllertest.World) error {
			maps := w.List(client.ConfigMaps)
			for _, obj := range maps {
				if cm := obj.(*corev1.ConfigMap); len(cm.Data) != 1 || cm.Data["ca.crt"] != bundle {
					return fmt.Errorf("%s has %v", cm.Namespace, cm.Data)
				}
			}
			if len(maps) != 3 {
				return fmt.Errorf("%d namespaces have a bundle, want 3", len(maps))
			}
			return nil
		},
	})
}
