package job_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
)

// amid is a client amid whose work something happens, once: before it updates
// a pod, while it waits for its picture of the pods, or before it asks for a Job
// or makes a pod.
type amid struct {
	client.Interface
	update, wait, make func()
	made               int // pods
}

func (c *amid) making() {
	if f := c.make; f != nil {
		c.make = nil
		f()
	}
}

func (c *amid) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	if res == client.Jobs {
		c.making()
	}
	return c.Interface.Get(ctx, res, namespace, name)
}

func (c *amid) Update(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if f := c.update; f != nil && res == client.Pods {
		c.update = nil
		f()
	}
	return c.Interface.Update(ctx, res, obj, sub...)
}

func (c *amid) Create(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if res == client.Pods {
		c.making()
		c.made++
	}
	return c.Interface.Create(ctx, res, obj, sub...)
}

func (c *amid) View(res client.Resource, opts client.ViewOptions) client.View {
	v := c.Interface.View(res, opts)
	if res != client.Pods {
		return v
	}
	return &amidView{View: v, client: c}
}

type amidView struct {
	client.View
	client *amid
}

func (v *amidView) WaitFor(ctx context.Context, resourceVersion string) error {
	if f := v.client.wait; f != nil {
		v.client.wait = nil
		f()
	}
	return v.View.WaitFor(ctx, resourceVersion)
}

// turn runs a loop for two minutes.
func turn(l controllers.Controller) { turnAmid(l, func() {}) }

// turnAmid runs a loop for a minute, does something, and runs it for another.
func turnAmid(l controllers.Controller, do func()) {
	defer controllertest.Turn(l)()
	time.Sleep(time.Minute)
	do()
	time.Sleep(time.Minute)
}

// started is a Job with one pod, made by a loop that runs no more.
func started(t *testing.T, c client.Interface) (*batchv1.Job, *corev1.Pod) {
	t.Helper()
	if _, err := c.Create(t.Context(), client.Jobs, newJob("stay", 1, 1)); err != nil {
		t.Fatal(err)
	}
	turn(job.New(controllers.Options{Client: c}))
	pods, _, err := c.List(t.Context(), client.Pods, "default", metav1.ListOptions{})
	if err != nil || len(pods) != 1 {
		t.Fatalf("there are %d pods, %v", len(pods), err)
	}
	j, err := client.Get[*batchv1.Job](t.Context(), c, client.Jobs, "default", "work")
	if err != nil {
		t.Fatal(err)
	}
	return j, pods[0].(*corev1.Pod)
}

// A pod that another copy of the loop has made, that has succeeded, is counted
// and was cleared away before this copy's view shows any of it, is not made
// again.
func TestMadeByAnother(t *testing.T) {
	for _, already := range []bool{false, true} {
		t.Run(fmt.Sprint(already), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.New(t, apitest.Options{}).Client("tester")
				if _, err := c.Create(t.Context(), client.Jobs, newJob("stay", 1, 1)); err != nil {
					t.Fatal(err)
				}
				asked := false
				loops := &amid{Interface: c, make: func() {
					if asked = true; !already {
						return
					}
					j, err := client.Get[*batchv1.Job](t.Context(), c, client.Jobs, "default", "work")
					if err != nil {
						t.Fatal(err)
					}
					j = j.DeepCopy()
					j.Status.Succeeded, j.Status.StartTime = 1, &metav1.Time{Time: time.Now()}
					if _, err := c.Update(t.Context(), client.Jobs, j, "status"); err != nil {
						t.Error(err)
					}
				}}
				turn(job.New(controllers.Options{Client: loops}))
				if want := map[bool]int{false: 1, true: 0}[already]; !asked || loops.made != want {
					t.Errorf("asked %t: %d pods were made, want %d", asked, loops.made, want)
				}
			})
		})
	}
}

// setOwner gives a pod the owners named, in place of those that it has.
func setOwner(t *testing.T, c client.Interface, name string, refs ...metav1.OwnerReference) {
	t.Helper()
	edit(t, c, name, func(pod *corev1.Pod) { pod.OwnerReferences = refs })
}

// edit changes a pod, or a subresource of it.
func edit(t *testing.T, c client.Interface, name string, change func(*corev1.Pod), sub ...string) {
	t.Helper()
	pod, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	pod = pod.DeepCopy()
	change(pod)
	if _, err := c.Update(t.Context(), client.Pods, pod, sub...); err != nil {
		t.Fatal(err)
	}
}

// A pod that its Job takes back while the loop for orphans is about to free it
// keeps the finalizer: without it the Job would delete it and make another.
func TestOrphanTakenBack(t *testing.T) {
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := apitest.New(t, apitest.Options{})
				c := h.Client("tester")
				_, pod := started(t, c)
				strange := func(pod *corev1.Pod) { pod.OwnerReferences, pod.Labels = nil, nil } // none adopts it so
				edit(t, c, pod.Name, strange)
				met := false
				loops := &amid{Interface: h.Client("loops"), update: func() {
					if met = true; back {
						edit(t, c, pod.Name, func(now *corev1.Pod) { now.OwnerReferences, now.Labels = pod.OwnerReferences, pod.Labels })
					}
				}}
				turn(job.NewOrphans(controllers.Options{Client: loops}))
				left, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", pod.Name)
				if err != nil {
					t.Fatal(err)
				}
				if held := len(left.Finalizers) == 1; !met || held != back {
					t.Errorf("tried %t, finalizers are %v", met, left.Finalizers)
				}
			})
		})
	}
}

// A pod that loses its Job while the loop waits for its picture of the pods is
// adopted, and no other is made.
func TestOrphanedAmidCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c := h.Client("tester")
		j, pod := started(t, c)
		met := false
		again := &amid{Interface: h.Client("loops"), wait: func() {
			met = true
			setOwner(t, c, pod.Name)
		}}
		turn(job.New(controllers.Options{Client: again}))
		left, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", pod.Name)
		if err != nil || !metav1.IsControlledBy(left, j) || len(left.Finalizers) != 1 {
			t.Errorf("the pod is %+v, %v", left.ObjectMeta, err)
		}
		if !met || again.made != 0 {
			t.Errorf("orphaned %t, %d pods were made", met, again.made)
		}
	})
}

// A pod that lost its Job keeps the finalizer while a Job is there that will
// adopt it: it may end before that, and is to be counted. When that Job ends or
// goes, nobody counts it any more.
func TestOrphanIsLeftToItsJob(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.New(t, apitest.Options{}).Client("tester")
				_, pod := started(t, c)
				setOwner(t, c, pod.Name)
				held := func() int {
					now, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", pod.Name)
					if err != nil {
						t.Fatal(err)
					}
					return len(now.Finalizers)
				}
				turnAmid(job.NewOrphans(controllers.Options{Client: c}), func() {
					if held() != 1 {
						t.Error("its finalizer is gone before a Job could count it")
					}
					// Orphan leaves the Job there, being deleted.
					if err := c.Delete(t.Context(), client.Jobs, "default", "work", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
						t.Fatal(err)
					}
				})
				if held() != 0 {
					t.Error("a Job that adopts nothing more holds it")
				}
			})
		})
	}
}

// A pod that has ended and is counted is not counted again when it loses its
// Job and is adopted: not one that the Job made, nor one that had ended when
// the Job first adopted it.
func TestCountedOnceThoughAdoptedTwice(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for _, found := range []bool{false, true} {
			for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
				if found && !manual {
					continue // what such a Job selects it has made
				}
				t.Run(fmt.Sprintf("manual=%t,found=%t,%s", manual, found, phase), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { adoptTwice(t, manual, found, phase) })
				})
			}
		}
	}
}

func adoptTwice(t *testing.T, manual, found bool, phase corev1.PodPhase) {
	c := apitest.New(t, apitest.Options{}).Client("tester")
	j := newJob("stay", 1, 3)
	if manual {
		j.Spec.ManualSelector = &manual
		j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}
		j.Spec.Template.Labels = j.Spec.Selector.MatchLabels
	}
	if found {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "found", Labels: j.Spec.Template.Labels}, Spec: j.Spec.Template.Spec}
		if _, err := c.Create(t.Context(), client.Pods, pod); err != nil {
			t.Fatal(err)
		}
		edit(t, c, "found", func(pod *corev1.Pod) { pod.Status.Phase = phase }, "status")
	}
	if _, err := c.Create(t.Context(), client.Jobs, j); err != nil {
		t.Fatal(err)
	}
	l := job.New(controllers.Options{Client: c})
	name := "found"
	turnAmid(l, func() {
		if found {
			return
		}
		pods, _, err := c.List(t.Context(), client.Pods, "default", metav1.ListOptions{})
		if err != nil || len(pods) != 1 {
			t.Fatalf("there are %d pods, %v", len(pods), err)
		}
		name = pods[0].GetName()
		edit(t, c, name, func(pod *corev1.Pod) { pod.Status.Phase = phase }, "status")
	})
	check := func(when string) {
		t.Helper()
		now, err := client.Get[*batchv1.Job](t.Context(), c, client.Jobs, "default", "work")
		if err != nil {
			t.Fatal(err)
		}
		pod, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", name)
		if err != nil {
			t.Fatal(err)
		}
		if now.Status.Succeeded+now.Status.Failed != 1 || !metav1.IsControlledBy(pod, now) || len(pod.Finalizers) > 0 {
			t.Errorf("%s: %d succeeded, %d failed, the pod is %+v", when, now.Status.Succeeded, now.Status.Failed, pod.ObjectMeta)
		}
	}
	check("at first")
	setOwner(t, c, name)
	turn(job.New(controllers.Options{Client: c}))
	check("adopted again")
}

// Pods that lose their Job are adopted again, and none is made in their place;
// those that end are counted once, whenever they do.
func TestConvergesOrphaned(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets, End: end,
		Start: func(w *controllertest.World) {
			j := newJob("stay", 3, 3)
			if w.Rand.IntN(2) == 0 {
				j = newJob("ok", 3, 3)
			}
			if w.Rand.IntN(2) == 0 {
				indexed(j)
			}
			w.Create(client.Jobs, j)
		},
		Meanwhile: func(w *controllertest.World) {
			for range 1 + w.Rand.IntN(3) {
				for _, pod := range w.List(client.Pods) {
					w.Edit(client.Pods, "default", pod.GetName(), func(obj client.Object) { obj.SetOwnerReferences(nil) })
				}
				w.Rest(5e9)
			}
		},
		Check: func(w *controllertest.World) error {
			if made, gone := w.Done("create", client.Pods), w.Done("delete", client.Pods); !w.Faulty && (made != 3 || gone != 0) {
				return fmt.Errorf("%d pods were made and %d deleted", made, gone)
			}
			return counted(w)
		},
	})
}

// Pods that have ended are cleared away while their Job goes on, before or after
// they are counted: as many succeed as are claimed, no more are made, and each
// is counted.
func TestConvergesCleared(t *testing.T) {
	controllertest.Run(t, controllertest.Case{
		Loops: loops, Others: newKubelets,
		Start: func(w *controllertest.World) {
			j := newJob("ok", 2, 3+w.Rand.Int32N(4))
			if w.Rand.IntN(3) == 0 {
				indexed(j)
			}
			w.Create(client.Jobs, j)
		},
		Meanwhile: func(w *controllertest.World) {
			for range 20 {
				w.Rest(4e9)
				for _, obj := range w.List(client.Pods) {
					if controllers.Ended(obj.(*corev1.Pod)) {
						w.Delete(client.Pods, "default", obj.GetName(), metav1.DeleteOptions{})
					}
				}
			}
		},
		End: func(w *controllertest.World) string {
			j := w.Get(client.Jobs, "default", "work").(*batchv1.Job)
			return fmt.Sprint(j.Status.Succeeded, " ", j.Status.Failed, " ", j.Status.CompletedIndexes, " of ", *j.Spec.Completions)
		},
		Check: func(w *controllertest.World) error {
			j := w.Get(client.Jobs, "default", "work").(*batchv1.Job)
			made := int32(w.Done("create", client.Pods))
			if want := *j.Spec.Completions; j.Status.Succeeded != want || j.Status.Failed != 0 || j.Spec.CompletionMode == nil && made != want {
				return fmt.Errorf("%d pods were made, %d and %d are counted, want %d", made, j.Status.Succeeded, j.Status.Failed, want)
			}
			return nil
		},
	})
}
