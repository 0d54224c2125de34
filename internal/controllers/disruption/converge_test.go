package disruption_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/disruption"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

var labels = map[string]string{"app": "web"}

func set(name, image string, n int32) *appsv1.ReplicaSet {
	l := map[string]string{"app": "web", "set": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: l},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
		},
	}
}

func budget(name string, least, most *intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MinAvailable: least, MaxUnavailable: most},
	}
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{disruption.New(o)}
}

func others(o controllers.Options) []controllers.Controller {
	return append(controllertest.Kubelets(o), replicaset.New(o))
}

func status(w *controllertest.World) string {
	return w.Lines(client.PodDisruptionBudgets, func(obj client.Object) string {
		b := obj.(*policyv1.PodDisruptionBudget)
		st := b.Status
		return fmt.Sprintf("%s: %d expected, %d healthy of %d, %d allowed, %d disrupted, observed %t, %s", b.Name, st.ExpectedPods,
			st.CurrentHealthy, st.DesiredHealthy, st.DisruptionsAllowed, len(st.DisruptedPods), st.ObservedGeneration == b.Generation, st.Conditions[0].Reason)
	})
}

// evict tries to evict one of a set's pods and says what came of it.
func evict(w *controllertest.World, set string) error {
	for _, obj := range w.List(client.Pods) {
		if obj.GetLabels()["set"] == set && obj.GetDeletionTimestamp() == nil {
			_, err := w.Client.Create(context.Background(), client.Pods, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: obj.GetName(), Namespace: obj.GetNamespace()},
			}, "eviction")
			return err
		}
	}
	return fmt.Errorf("set %s has no pods", set)
}

func TestConverges(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: others, End: status,
		Start: func(w *controllertest.World) {
			w.Create(client.ReplicaSets, set("a", "v1", 2+w.Rand.Int32N(3)))
			one, half := intstr.FromInt(1), intstr.FromString("50%")
			if w.Rand.IntN(2) == 0 {
				w.Create(client.PodDisruptionBudgets, budget("most", nil, &one))
			} else {
				w.Create(client.PodDisruptionBudgets, budget("least", &half, nil))
			}
		},
		Meanwhile: func(w *controllertest.World) {
			n := 1 + w.Rand.Int32N(5)
			w.Edit(client.ReplicaSets, "default", "a", func(obj client.Object) { obj.(*appsv1.ReplicaSet).Spec.Replicas = &n })
			evict(w, "a") // whatever comes of it
		},
	})
}

// A pod that runs but is not ready may go when the policy says so, or when the
// budget has enough that are healthy; else the budget decides.
func TestUnhealthyPods(t *testing.T) {
	for _, row := range []struct {
		policy policyv1.UnhealthyPodEvictionPolicyType
		least  int
		goes   bool
	}{
		{policyv1.IfHealthyBudget, 2, true}, {policyv1.IfHealthyBudget, 3, false}, {policyv1.AlwaysAllow, 3, true},
	} {
		controllertest.Run(t, controllertest.Case{
			Loops: loops, Others: others, End: status, Runs: 30,
			Start: func(w *controllertest.World) {
				w.Create(client.ReplicaSets, set("good", "v1", 2))
				w.Create(client.ReplicaSets, set("bad", controllertest.Broken, 1))
				least := intstr.FromInt(row.least)
				b := budget("b", &least, nil)
				b.Spec.UnhealthyPodEvictionPolicy = &row.policy
				w.Create(client.PodDisruptionBudgets, b)
			},
			Meanwhile: func(w *controllertest.World) {
				time.Sleep(2 * time.Minute)
				for _, obj := range w.List(client.Pods) {
					w.Edit(client.Pods, "default", obj.GetName(), func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodRunning }, "status")
				}
				if err := evict(w, "good"); !apierrors.IsTooManyRequests(err) {
					w.TB.Errorf("%s, %d have to be healthy: a healthy pod: %v", row.policy, row.least, err)
				}
				if err := evict(w, "bad"); (err == nil) != row.goes || err != nil && !apierrors.IsTooManyRequests(err) {
					w.TB.Errorf("%s, %d have to be healthy: an unhealthy pod: %v", row.policy, row.least, err)
				}
			},
		})
	}
}

// Two budgets on one pod are one too many for an eviction.
func TestTwoBudgets(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: others, End: status, Runs: 100,
		Start: func(w *controllertest.World) {
			w.Create(client.ReplicaSets, set("a", "v1", 3))
			one := intstr.FromInt(1)
			w.Create(client.PodDisruptionBudgets, budget("one", &one, nil))
			w.Create(client.PodDisruptionBudgets, budget("two", nil, &one))
		},
		Meanwhile: func(w *controllertest.World) {
			time.Sleep(2 * time.Minute)
			if err := evict(w, "a"); !apierrors.IsInternalError(err) {
				w.TB.Errorf("the answer is %v", err)
			}
		},
	})
}
