package nodelifecycle_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/podgc"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
	"github.com/setpoint-project/setpoint/internal/controllers/statefulset"
)

// A pod of a StatefulSet on a node that has fallen silent may still run there:
// it is told to go and stays, and no other is made in its place, until the node
// is deleted or somebody forces it. A pod of a Deployment is replaced at once.
func TestStatefulPodOnASilentNode(t *testing.T) {
	for name, free := range map[string]func(*world, *corev1.Pod){
		"forced": func(w *world, pod *corev1.Pod) {
			if err := w.client.Delete(w.Context(), client.Pods, "default", pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				w.Error(err)
			}
		},
		"node deleted": func(w *world, pod *corev1.Pod) {
			if err := w.client.Delete(w.Context(), client.Nodes, "", pod.Spec.NodeName, metav1.DeleteOptions{}); err != nil {
				w.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, 3, func(w *world) {
				w.workloads()
				db, web := w.owned("db"), w.owned("web")
				if len(db) != 1 || len(web) != 1 || db[0].Status.Phase != corev1.PodRunning || web[0].Status.Phase != corev1.PodRunning {
					w.Fatalf("at first there are %v and %v", db, web)
				}
				w.silence("sim-1", true)
				time.Sleep(time.Hour)
				now := w.owned("db")
				if len(now) != 1 || now[0].UID != db[0].UID || now[0].DeletionTimestamp == nil {
					w.Errorf("the StatefulSet's pod, told to go: %v", now)
				}
				if n := w.others("web", web[0].UID); n != 1 {
					w.Errorf("%d pods replace that of the Deployment", n)
				}
				free(w, db[0])
				time.Sleep(5 * time.Minute)
				if now := w.owned("db"); len(now) != 1 || now[0].UID == db[0].UID || now[0].Name != db[0].Name || now[0].DeletionTimestamp != nil {
					w.Errorf("freed, the StatefulSet has %v", now)
				}
			})
		})
	}
}

// workloads are a StatefulSet db and a Deployment web with a pod each on sim-1,
// and the loops that turn them.
func (w *world) workloads() {
	w.Helper()
	o := controllers.Options{Client: w.client}
	var wg sync.WaitGroup
	for _, l := range []controllers.Controller{deployment.New(o), replicaset.New(o), statefulset.New(o), podgc.New(o, 0)} {
		wg.Go(func() { l.Run(w.Context()) })
	}
	w.Cleanup(wg.Wait)
	one := int32(1)
	template := func(app string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": app}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app"}}}}
	}
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &one, ServiceName: "db"}}
	s.Spec.Selector, s.Spec.Template = template("db")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &one}}
	d.Spec.Selector, d.Spec.Template = template("web")
	if _, err := w.client.Create(w.Context(), client.StatefulSets, s); err != nil {
		w.Fatal(err)
	}
	if _, err := w.client.Create(w.Context(), client.Deployments, d); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	for _, app := range []string{"db", "web"} {
		for _, pod := range w.owned(app) {
			to := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "sim-1"}}
			if _, err := w.client.Create(w.Context(), client.Pods, to, "binding"); err != nil {
				w.Fatal(err)
			}
		}
	}
	time.Sleep(time.Minute)
}

// owned are the pods of an app, those that are to go included.
func (w *world) owned(app string) []*corev1.Pod {
	w.Helper()
	synctest.Wait()
	pods, _, err := client.List[*corev1.Pod](w.Context(), w.client, client.Pods, "default", metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		w.Fatal(err)
	}
	return pods
}

// others counts the pods of an app that are not to go, but for one.
func (w *world) others(app string, but types.UID) (n int) {
	for _, pod := range w.owned(app) {
		if pod.UID != but && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
