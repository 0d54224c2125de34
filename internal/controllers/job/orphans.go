package job

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// orphansName is that of the second loop.
const orphansName = "joborphans"

// byJob indexes the pods that have our finalizer by the uid of their Job; those
// without a Job lie under what jobless says.
const byJob = "job"

func jobless(namespace string) string { return "none/" + namespace }

// Orphans takes the finalizer from pods that no Job will ever count: since
// theirs is gone or has ended, or they have none and none is going to adopt
// them. Its keys are pods.
type Orphans struct {
	*loop.Loop
	client     client.Interface
	jobs, pods client.View
	written    controllers.Written
}

// NewOrphans wires the loop; Run turns it.
func NewOrphans(opts controllers.Options) *Orphans {
	o := &Orphans{
		client: opts.Client,
		jobs:   opts.Client.View(client.Jobs, client.ViewOptions{}),
		pods:   opts.Client.View(client.Pods, client.ViewOptions{}),
	}
	o.pods.Index(byJob, func(obj client.Object) []string {
		if pod, ok := obj.(*corev1.Pod); !ok || !isHeld(pod) {
			return nil
		}
		if ref := jobOf(obj); ref != nil {
			return []string{string(ref.UID)}
		}
		return []string{jobless(obj.GetNamespace())}
	})
	controllers.IndexBySelector(o.jobs, controllers.MatchLabels(selectorOf))
	o.Loop = controllers.NewLoop(opts, orphansName, 0, o.reconcile)
	return o
}

func jobOf(obj client.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind.Kind {
		return nil
	}
	return ref
}

// Run turns the loop until ctx ends.
func (o *Orphans) Run(ctx context.Context) error {
	return controllers.Run(ctx, o.Loop,
		controllers.Input{View: o.jobs, Changed: o.jobChanged},
		controllers.Input{View: o.pods, Changed: o.podChanged},
	)
}

// jobChanged looks at the pods of a Job that is gone or has ended, and at those
// that it adopts no more.
func (o *Orphans) jobChanged(old, new client.Object) {
	j := controllers.Present(old, new).(*batchv1.Job)
	if new != nil && adopts(j) {
		return
	}
	for _, pod := range o.pods.ByIndex(byJob, string(j.UID)) {
		o.Look(controllers.KeyOf(pod))
	}
	for _, pod := range o.pods.ByIndex(byJob, jobless(j.Namespace)) {
		if controllers.Selects(j.Spec.Selector, pod) {
			o.Look(controllers.KeyOf(pod))
		}
	}
}

// adopts tells whether a Job adopts pods that it selects.
func adopts(j *batchv1.Job) bool {
	_, done := IsFinished(j)
	return !done && j.DeletionTimestamp == nil && isOurs(j)
}

func (o *Orphans) podChanged(_, new client.Object) {
	if pod, ok := new.(*corev1.Pod); ok && isHeld(pod) && o.lost(pod) {
		o.Look(controllers.KeyOf(pod))
	}
}

// lost tells whether, by the views, no Job is there that will count a pod.
func (o *Orphans) lost(pod *corev1.Pod) bool {
	ref := jobOf(pod)
	if ref == nil {
		return !o.wanted(pod)
	}
	return ended(client.In[*batchv1.Job](o.jobs, pod.Namespace, ref.Name), ref)
}

// wanted tells whether a Job is going to adopt a pod, and to count it.
func (o *Orphans) wanted(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(pod) != nil {
		return false
	}
	return slices.ContainsFunc(controllers.Selecting[*batchv1.Job](o.jobs, pod.Namespace, pod.Labels), func(j *batchv1.Job) bool {
		return adopts(j) && controllers.Selects(j.Spec.Selector, pod)
	})
}

func ended(j *batchv1.Job, ref *metav1.OwnerReference) bool {
	if j == nil || j.UID != ref.UID {
		return true
	}
	_, done := IsFinished(j)
	return done && isOurs(j)
}

func (o *Orphans) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := o.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	pod := client.In[*corev1.Pod](o.pods, key.Namespace, key.Name)
	if pod == nil || !isHeld(pod) || !o.lost(pod) {
		return loop.Done(), nil
	}
	// The view of Jobs may be late: ask before it costs a Job one of its counts.
	if ref := jobOf(pod); ref != nil {
		j, err := client.Get[*batchv1.Job](ctx, o.client, client.Jobs, pod.Namespace, ref.Name)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return loop.Outcome{}, err
		case err == nil && !ended(j, ref):
			return loop.Done(), nil // the view will show it, and nothing is to be done
		}
	}
	// The pod as it was seen, or not at all: a Job may have adopted it since,
	// and would take one without the finalizer for one that it cannot count.
	changed := *pod // Update copies what it is given
	changed.Finalizers = withoutHold(pod)
	got, err := o.client.Update(ctx, client.Pods, &changed)
	switch {
	case apierrors.IsNotFound(err):
		return loop.Done(), nil
	case err != nil:
		return loop.Outcome{}, err
	}
	o.written.Note(key, o.pods, got)
	return loop.Acted("took the finalizer that no Job waits for"), nil
}
