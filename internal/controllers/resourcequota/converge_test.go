package resourcequota_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/resourcequota"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}},
	}}
}

// Whatever comes and goes, in the end what is there is counted.
func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{resourcequota.New(o)}
		},
		Others: controllertest.Kubelets,
		Start: func(w *controllertest.World) {
			hard := corev1.ResourceList{}
			for name, n := range map[corev1.ResourceName]string{"pods": "10", "requests.cpu": "2", "configmaps": "5", "count/deployments.apps": "3", "count/unknowns.example.com": "1"} {
				hard[name] = resource.MustParse(n)
			}
			w.Create(client.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "default"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}})
			for i := range 2 + w.Rand.IntN(3) {
				w.Create(client.Pods, pod(fmt.Sprint("p", i)))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			w.Create(client.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}})
			w.Rest(10 * time.Second)
			w.Delete(client.Pods, "default", "p0", metav1.DeleteOptions{})
			w.Edit(client.Pods, "default", "p1", func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodFailed }, "status")
			w.Edit(client.ResourceQuotas, "default", "q", func(obj client.Object) {
				obj.(*corev1.ResourceQuota).Spec.Hard["pods"] = resource.MustParse("7")
			})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.ResourceQuotas, func(obj client.Object) string {
				text := ""
				st := obj.(*corev1.ResourceQuota).Status
				for _, name := range []corev1.ResourceName{"pods", "requests.cpu", "configmaps", "count/deployments.apps", "count/unknowns.example.com"} {
					used, hard := st.Used[name], st.Hard[name]
					text += fmt.Sprintf("%s %s of %s; ", name, used.String(), hard.String())
				}
				return text
			})
		},
	})
}
