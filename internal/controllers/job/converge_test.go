package job_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
	"github.com/setpoint-project/setpoint/loop"
)

// How a pod ends is its image's say: "ok" succeeds, "bad" fails, "third" fails
// when its index is one of 2, 5, 8..., "once" fails when its index has not
// failed before, "stay" never ends.
func outcome(pod *corev1.Pod) corev1.PodPhase {
	index, _ := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	bad := false
	switch pod.Spec.Containers[0].Image {
	case "stay":
		return ""
	case "bad":
		bad = true
	case "third":
		bad = index%3 == 2
	case "once":
		bad = pod.Annotations[batchv1.JobIndexFailureCountAnnotation] == "0"
	}
	if bad {
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// kubelets run pods for two seconds, and take away those that are deleted.
type kubelets struct {
	*loop.Loop
	client client.Interface
	pods   client.View
}

func newKubelets(o controllers.Options) []controllers.Controller {
	k := &kubelets{client: o.Client, pods: o.Client.View(client.Pods, client.ViewOptions{})}
	k.Loop = controllers.NewLoop(o, "kubelets", 0, k.reconcile)
	return []controllers.Controller{k}
}

func (k *kubelets) Run(ctx context.Context) error {
	return controllers.Run(ctx, k.Loop, controllers.Input{View: k.pods, Changed: func(_, new client.Object) {
		if new != nil {
			k.LookAfter(controllers.KeyOf(new), time.Second)
		}
	}})
}

func (k *kubelets) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	pod := client.In[*corev1.Pod](k.pods, key.Namespace, key.Name)
	if pod == nil {
		return loop.Done(), nil
	}
	now := metav1.Now()
	end := outcome(pod)
	changed := pod.DeepCopy()
	st := &changed.Status
	ended := st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && (ended || st.Phase == ""):
		if len(pod.Finalizers) > 0 && *pod.DeletionGracePeriodSeconds == 0 {
			return loop.Done(), nil
		}
		err := k.client.Delete(ctx, client.Pods, key.Namespace, key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return loop.Done(), err
	case ended, st.Phase == corev1.PodRunning && end == "" && pod.DeletionTimestamp == nil:
		return loop.Done(), nil
	case st.Phase == corev1.PodRunning:
		if st.Phase = end; pod.DeletionTimestamp != nil {
			st.Phase = corev1.PodFailed
		}
		code := int32(0)
		if st.Phase == corev1.PodFailed {
			code = 7
		}
		st.Conditions[0].Status = corev1.ConditionFalse
		st.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now}}}}
	default:
		st.Phase, st.StartTime = corev1.PodRunning, &now
		st.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	}
	_, err := k.client.Update(ctx, client.Pods, changed, "status")
	return loop.Done(), err
}

func newJob(image string, parallelism, completions int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "default"},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Completions: &completions,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "c", Image: image}},
			}},
		},
	}
}

func indexed(j *batchv1.Job) *batchv1.Job {
	mode := batchv1.IndexedCompletion
	j.Spec.CompletionMode = &mode
	return j
}

func loops(o controllers.Options) []controllers.Controller {
	return []controllers.Controller{job.New(o), job.NewOrphans(o)}
}

func end(w *controllertest.World) string {
	text := w.Lines(client.Jobs, func(obj client.Object) string {
		st := obj.(*batchv1.Job).Status
		line := fmt.Sprintf("%d active, %d ready, %d terminating, %d succeeded, %d failed, indexes %q",
			st.Active, *st.Ready, *st.Terminating, st.Succeeded, st.Failed, st.CompletedIndexes)
		if st.FailedIndexes != nil {
			line += fmt.Sprintf(", failed %q", *st.FailedIndexes)
		}
		if u := st.UncountedTerminatedPods; u != nil {
			line += fmt.Sprintf(", %d uncounted", len(u.Succeeded)+len(u.Failed))
		}
		for _, c := range st.Conditions {
			line += fmt.Sprintf("; %s=%s %s", c.Type, c.Status, c.Reason)
		}
		return line
	})
	return text + w.Lines(client.Pods, func(obj client.Object) string {
		pod := obj.(*corev1.Pod)
		return fmt.Sprintf("%s, index %s, finalizers %v", pod.Status.Phase, pod.Annotations[batchv1.JobCompletionIndexAnnotation], pod.Finalizers)
	})
}

// Each pod is counted once, whatever happens.
func counted(w *controllertest.World) error {
	j := w.Get(client.Jobs, "default", "work").(*batchv1.Job)
	var succeeded, failed int32
	for _, obj := range w.List(client.Pods) {
		switch pod := obj.(*corev1.Pod); {
		case slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed):
			return fmt.Errorf("pod %s keeps the finalizer", pod.Name)
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
		case pod.Status.Phase == corev1.PodFailed:
			failed++
		}
	}
	if j.Status.Succeeded != succeeded || j.Status.Failed != failed {
		return fmt.Errorf("%d and %d are counted, %d have succeeded and %d failed", j.Status.Succeeded, j.Status.Failed, succeeded, failed)
	}
	return nil
}

func TestConvergesComplete(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets, End: end, Check: counted,
		Start: func(w *controllertest.World) {
			j := newJob("ok", 1+w.Rand.Int32N(4), 1+w.Rand.Int32N(6))
			if w.Rand.IntN(2) == 0 {
				indexed(j)
			}
			w.Create(client.Jobs, j)
		},
	})
}

func TestConvergesFailing(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets, End: end, Check: counted,
		Start: func(w *controllertest.World) {
			j := newJob("bad", 1, 3)
			j.Spec.BackoffLimit = new(w.Rand.Int32N(3))
			w.Create(client.Jobs, j)
		},
	})
}

// A pod that fails is tried once more where one failure is allowed: it fails
// twice, and so does the Job.
func TestFailsTwice(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets, End: end,
		Start: func(w *controllertest.World) {
			j := newJob("bad", 1, 1)
			j.Spec.BackoffLimit = new(int32(1))
			w.Create(client.Jobs, j)
		},
		Check: func(w *controllertest.World) error {
			st := w.Get(client.Jobs, "default", "work").(*batchv1.Job).Status
			i := slices.IndexFunc(st.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailed })
			if n := len(w.List(client.Pods)); n != 2 || st.Failed != 2 || i < 0 || st.Conditions[i].Reason != batchv1.JobReasonBackoffLimitExceeded {
				return fmt.Errorf("%d pods, status %+v", n, st)
			}
			return counted(w)
		},
	})
}

func TestConvergesPerIndex(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets, End: end, Check: counted,
		Start: func(w *controllertest.World) {
			j := indexed(newJob([]string{"third", "once"}[w.Rand.IntN(2)], 3, 4+w.Rand.Int32N(3)))
			j.Spec.BackoffLimitPerIndex = new(1 + w.Rand.Int32N(2))
			w.Create(client.Jobs, j)
		},
	})
}

func TestConvergesSuspended(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets,
		Start: func(w *controllertest.World) {
			j := newJob("stay", 3, 3)
			j.Spec.Suspend = new(w.Rand.IntN(2) == 0)
			w.Create(client.Jobs, j)
		},
		Meanwhile: func(w *controllertest.World) {
			for range 2 + w.Rand.IntN(2) {
				suspend, parallelism := w.Rand.IntN(2) == 0, 1+w.Rand.Int32N(3)
				w.Edit(client.Jobs, "default", "work", func(obj client.Object) {
					obj.(*batchv1.Job).Spec.Suspend, obj.(*batchv1.Job).Spec.Parallelism = &suspend, &parallelism
				})
				w.Rest(10e9)
			}
			w.Edit(client.Jobs, "default", "work", func(obj client.Object) { obj.(*batchv1.Job).Spec.Suspend = new(true) })
			w.Rest(3e9)
			w.Edit(client.Jobs, "default", "work", func(obj client.Object) { obj.(*batchv1.Job).Spec.Suspend = new(false) })
		},
		End: func(w *controllertest.World) string {
			st := w.Get(client.Jobs, "default", "work").(*batchv1.Job).Status
			return fmt.Sprint(st.Active, *st.Ready, *st.Terminating, st.Succeeded, st.Failed, len(w.List(client.Pods)))
		},
	})
}

// A Job that is deleted leaves no pod that its finalizer holds.
func TestConvergesDeleted(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets,
		Start: func(w *controllertest.World) { w.Create(client.Jobs, newJob("ok", 2, 4)) },
		Meanwhile: func(w *controllertest.World) {
			w.Rest(8e9)
			w.Delete(client.Jobs, "default", "work", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		},
		End: func(w *controllertest.World) string {
			return w.Lines(client.Jobs, client.Object.GetName) + w.Lines(client.Pods, func(obj client.Object) string {
				if len(obj.GetFinalizers()) > 0 {
					return obj.GetName()
				}
				return ""
			})
		},
	})
}
