package deployment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

func deploymentOf(rnd *rand.Rand) *appsv1.Deployment {
	replicas := 1 + rnd.Int32N(6)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
	if rnd.IntN(3) == 0 {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	} else {
		surge, unavailable := intstr.FromInt32(rnd.Int32N(3)), intstr.FromInt32(1+rnd.Int32N(2))
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
		}
	}
	return d
}

// end leaves out revisions and old ReplicaSets: a template that was replaced
// before anybody saw it leaves no trace.
func end(w *controllertest.World) string {
	text := w.Lines(client.Deployments, func(obj client.Object) string {
		d := obj.(*appsv1.Deployment)
		st := d.Status
		line := fmt.Sprintf("%s: %d claimed, %d there, %d updated, %d ready, %d available, %d terminating, observed %t",
			d.Name, *d.Spec.Replicas, st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas,
			*st.TerminatingReplicas, st.ObservedGeneration == d.Generation)
		for _, t := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure} {
			for _, c := range st.Conditions {
				if c.Type == t {
					line += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
				}
			}
		}
		return line
	})
	text += w.Lines(client.ReplicaSets, func(obj client.Object) string {
		rs := obj.(*appsv1.ReplicaSet)
		if *rs.Spec.Replicas == 0 && rs.Status.Replicas == 0 {
			return ""
		}
		return fmt.Sprintf("%s of %s: %d", rs.Name, rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas)
	})
	return text + w.Lines(client.Pods, func(obj client.Object) string {
		return fmt.Sprintf("%s, controlled %t", obj.(*corev1.Pod).Spec.Containers[0].Image, metav1.GetControllerOf(obj) != nil)
	})
}

func edit(w *controllertest.World, f func(*appsv1.Deployment)) {
	w.Edit(client.Deployments, "default", "web", func(obj client.Object) { f(obj.(*appsv1.Deployment)) })
}

func others(o controllers.Options) []controllers.Controller {
	return append(controllertest.Kubelets(o), replicaset.New(o))
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{deployment.New(o)}
		},
		Others: others,
		Start:  func(w *controllertest.World) { w.Create(client.Deployments, deploymentOf(w.Rand)) },
		Meanwhile: func(w *controllertest.World) {
			for i := range 2 + w.Rand.IntN(3) {
				switch w.Rand.IntN(5) {
				case 0:
					replicas := w.Rand.Int32N(8)
					edit(w, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
				case 1:
					edit(w, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v1" })
				case 2:
					edit(w, func(d *appsv1.Deployment) { d.Spec.Paused = !d.Spec.Paused })
				default:
					edit(w, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("v", i+2) })
				}
				w.Rest(4e9)
			}
			edit(w, func(d *appsv1.Deployment) { d.Spec.Paused = false })
		},
		End: end,
		Check: func(w *controllertest.World) error {
			if made, there := w.Done("create", client.ReplicaSets)-w.Done("delete", client.ReplicaSets), len(w.List(client.ReplicaSets)); made != there {
				return fmt.Errorf("%d ReplicaSets were made, %d are there", made, there)
			}
			return nil
		},
	})
}

// Both loops under fault at once: the whole rollout.
func TestConvergesWithReplicaSets(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{deployment.New(o), replicaset.New(o)}
		},
		Others: controllertest.Kubelets, Runs: 100,
		Start: func(w *controllertest.World) { w.Create(client.Deployments, deploymentOf(w.Rand)) },
		Meanwhile: func(w *controllertest.World) {
			edit(w, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = controllertest.Broken })
			w.Rest(10e9)
			edit(w, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v3" })
		},
		End: end,
	})
}

// The name that follows from the template is another's: the collision is
// counted, the ReplicaSet has another name, and the stranger is let alone.
func TestNameIsTaken(t *testing.T) {
	taken := ""
	controllertest.Run(t, controllertest.Case{
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{deployment.New(o)}
		},
		Others: others, End: end, Runs: 100,
		Start: func(w *controllertest.World) {
			d := w.Create(client.Deployments, deploymentOf(w.Rand)).(*appsv1.Deployment)
			taken = d.Name + "-" + deployment.Hash(&d.Spec.Template, nil)
			labels := map[string]string{"app": "stranger"}
			w.Create(client.ReplicaSets, &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: taken, Namespace: "default"},
				Spec: appsv1.ReplicaSetSpec{
					Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: d.Spec.Template.Spec},
				},
			})
		},
		Check: func(w *controllertest.World) error {
			d := w.Get(client.Deployments, "default", "web").(*appsv1.Deployment)
			if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 || d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("status is %+v", d.Status)
			}
			for _, rs := range w.List(client.ReplicaSets) {
				if stranger := rs.GetName() == taken; stranger == (metav1.GetControllerOf(rs) != nil) || stranger && rs.GetGeneration() != 1 {
					return fmt.Errorf("ReplicaSet %s: %+v", rs.GetName(), rs)
				}
			}
			if n := len(w.List(client.ReplicaSets)); n != 2 {
				return fmt.Errorf("there are %d ReplicaSets", n)
			}
			return nil
		},
	})
}
