package statefulset

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/revisions"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "statefulset"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	sets, pods, history, volumes client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:  opts.Client,
		events:  opts.Recorder(),
		sets:    opts.Client.View(client.StatefulSets, client.ViewOptions{}),
		pods:    opts.Client.View(client.Pods, client.ViewOptions{}),
		history: opts.Client.View(client.ControllerRevisions, client.ViewOptions{}),
		volumes: opts.Client.View(client.PersistentVolumeClaims, client.ViewOptions{}),
	}
	client.IndexByController(c.pods)
	client.IndexByController(c.history)
	controllers.IndexBySelector(c.sets, controllers.MatchLabels(selectorOf))
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

func selectorOf(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector }

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	owned := func(old, new client.Object) {
		controllers.LookAtController(c.Loop, kind.Kind)(old, new)
		controllers.LookAtAdopters(c.Loop, c.sets, new, selectorOf)
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.sets, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.pods, Changed: owned},
		controllers.Input{View: c.history, Changed: owned},
		controllers.Input{View: c.volumes, Changed: c.claimChanged},
	)
}

// claimChanged looks at the sets whose selector matches a claim that has come,
// gone or changed hands: the claims of a set have its labels.
func (c *Controller) claimChanged(old, new client.Object) {
	if old != nil && new != nil && len(old.GetOwnerReferences()) == len(new.GetOwnerReferences()) &&
		(old.GetDeletionTimestamp() == nil) == (new.GetDeletionTimestamp() == nil) {
		return
	}
	obj := controllers.Present(old, new)
	for _, set := range controllers.Selecting[*appsv1.StatefulSet](c.sets, obj.GetNamespace(), obj.GetLabels()) {
		if len(set.Spec.VolumeClaimTemplates) > 0 {
			c.Look(controllers.KeyOf(set))
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	set := client.In[*appsv1.StatefulSet](c.sets, key.Namespace, key.Name)
	if set == nil {
		return loop.Done(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("spec.selector: %w", err)
	}
	pods, out, err := c.claimPods(ctx, key, set, selector)
	if pods == nil || err != nil {
		return out, err
	}
	revs := controllers.Claim(set, selector, controllers.Candidates[*appsv1.ControllerRevision](c.history, set, set.Spec.Selector))
	switch {
	case revs.Release != nil:
		got, err := controllers.Release(ctx, c.client, set, client.ControllerRevisions, *revs.Release)
		return c.written.Outcome(key, c.history, got, err, "release", "revision %s", (*revs.Release).Name)
	case revs.Adopt != nil:
		got, err := controllers.Adopt(ctx, c.client, client.StatefulSets, set, kind, client.ControllerRevisions, *revs.Adopt)
		return c.written.Outcome(key, c.history, got, err, "adopt", "revision %s", (*revs.Adopt).Name)
	}
	w := world{set: set, pods: *pods, now: time.Now(), claim: func(name string) *corev1.PersistentVolumeClaim {
		return client.In[*corev1.PersistentVolumeClaim](c.volumes, key.Namespace, name)
	}}
	want, err := revisions.New(set, kind, set.Spec.Template.Labels, &set.Spec.Template, set.Status.CollisionCount)
	if err != nil {
		return loop.Outcome{}, err
	}
	var next revisions.Step
	if w.update, next = revisions.Next(want, revs.Owned); next != (revisions.Step{}) && set.DeletionTimestamp == nil {
		return c.keep(ctx, key, set, next)
	}
	w.current = w.update
	for _, rev := range revs.Owned {
		if rev.Name == set.Status.CurrentRevision {
			w.current = rev
		}
	}
	s := plan(w)
	if w.urgent(s.status) {
		return c.writeStatus(ctx, key, set, s.status)
	}
	if s.acts() {
		return c.act(ctx, key, set, s)
	}
	if s.status != nil {
		return c.writeStatus(ctx, key, set, s.status)
	}
	if old := revisions.Surplus(revs.Owned, w.uses, historyLimit(set)); old != nil && set.DeletionTimestamp == nil {
		return c.keeper().Forget(ctx, old)
	}
	if s.wait != "" {
		return loop.WaitFor(s.on, "%s", s.wait).In(s.after), nil
	}
	return loop.DoneUntil(s.after), nil
}

func historyLimit(set *appsv1.StatefulSet) int32 {
	if set.Spec.RevisionHistoryLimit == nil {
		return 10
	}
	return *set.Spec.RevisionHistoryLimit
}

// uses tells whether the set or one of its pods is of a revision.
func (w *world) uses(rev *appsv1.ControllerRevision) bool {
	return rev.Name == w.update.Name || rev.Name == w.current.Name ||
		slices.ContainsFunc(w.pods, func(p *corev1.Pod) bool { return revisionOf(p) == rev.Name })
}

// claimPods returns the set's pods, or what was done to have them. Only those
// with a name that the set gives can be adopted.
func (c *Controller) claimPods(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, selector labels.Selector) (*[]*corev1.Pod, loop.Outcome, error) {
	candidates := slices.DeleteFunc(controllers.Candidates[*corev1.Pod](c.pods, set, set.Spec.Selector), func(pod *corev1.Pod) bool {
		_, ok := ordinal(set, pod)
		return !ok && metav1.GetControllerOfNoCopy(pod) == nil
	})
	own := controllers.Claim(set, selector, candidates)
	switch {
	case own.Release != nil:
		got, err := controllers.Release(ctx, c.client, set, client.Pods, *own.Release)
		out, err := c.written.Outcome(key, c.pods, got, err, "release", "pod %s", (*own.Release).Name)
		return nil, out, err
	case own.Adopt != nil:
		got, err := controllers.Adopt(ctx, c.client, client.StatefulSets, set, kind, client.Pods, *own.Adopt)
		out, err := c.written.Outcome(key, c.pods, got, err, "adopt", "pod %s", (*own.Adopt).Name)
		return nil, out, err
	}
	return &own.Owned, loop.Outcome{}, nil
}

func (c *Controller) keeper() *revisions.Keeper {
	return &revisions.Keeper{Client: c.client, Written: &c.written, History: c.history}
}

// keep writes a revision, or counts a collision.
func (c *Controller) keep(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, next revisions.Step) (loop.Outcome, error) {
	return c.keeper().Keep(ctx, key, set, next, set.Status.CollisionCount, func(n *int32) (loop.Outcome, error) {
		st := set.Status.DeepCopy()
		st.CollisionCount = n
		return c.writeStatus(ctx, key, set, st)
	})
}

func (c *Controller) writeStatus(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) (loop.Outcome, error) {
	changed := *set // Update copies what it is given
	changed.Status = *status
	got, err := c.client.Update(ctx, client.StatefulSets, &changed, "status")
	return c.written.Outcome(key, c.sets, got, err, "update", "the status")
}

// act makes the one write of a step.
func (c *Controller) act(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, s step) (loop.Outcome, error) {
	var obj, got client.Object
	var err error
	v, verb, fatal := c.pods, "create", "FailedCreate"
	switch {
	case s.createClaim != nil:
		obj, v = s.createClaim, c.volumes
		got, err = c.create(ctx, client.PersistentVolumeClaims, obj, func(client.Object) bool { return true })
	case s.create != nil:
		obj = s.create
		got, err = c.create(ctx, client.Pods, obj, func(there client.Object) bool { return metav1.IsControlledBy(there, set) })
	case s.updateClaim != nil:
		obj, v, verb, fatal = s.updateClaim, c.volumes, "update", "FailedUpdate"
		got, err = c.client.Update(ctx, client.PersistentVolumeClaims, obj)
	case s.update != nil:
		obj, verb, fatal = s.update, "update", "FailedUpdate"
		got, err = c.client.Update(ctx, client.Pods, obj)
	default:
		return c.remove(ctx, set, s)
	}
	what := "Pod"
	if v == c.volumes {
		what = "Claim"
	}
	switch {
	case err == nil:
		c.written.Note(key, v, got)
		if verb == "create" {
			c.events.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", "create %s %s in StatefulSet %s successful", what, obj.GetName(), set.Name)
		}
		return loop.Acted("%s", s.what), nil
	case controllers.NamespaceEnding(err):
		return controllers.WaitForNamespace(key.Namespace)
	case controllers.Refused(err) || apierrors.IsAlreadyExists(err):
		c.events.Event(set, corev1.EventTypeWarning, fatal, "%s %s %s in StatefulSet %s failed error: %v", verb, what, obj.GetName(), set.Name, err)
	}
	if s.status != nil { // it may be long until the write succeeds
		if _, err := c.writeStatus(ctx, key, set, s.status); err != nil {
			return loop.Outcome{}, err
		}
	}
	return loop.Outcome{}, err
}

// create makes an object, or finds it when an answer was lost.
func (c *Controller) create(ctx context.Context, res client.Resource, obj client.Object, ours func(client.Object) bool) (client.Object, error) {
	got, err := c.client.Create(ctx, res, obj)
	if apierrors.IsAlreadyExists(err) {
		if there, getErr := c.client.Get(ctx, res, obj.GetNamespace(), obj.GetName()); getErr == nil && ours(there) {
			return there, nil
		}
	}
	return got, err
}

func (c *Controller) remove(ctx context.Context, set *appsv1.StatefulSet, s step) (loop.Outcome, error) {
	pod := s.remove
	err := c.client.Delete(ctx, client.Pods, pod.Namespace, pod.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	switch {
	case err == nil:
		c.events.Event(set, corev1.EventTypeNormal, "SuccessfulDelete", "delete Pod %s in StatefulSet %s successful", pod.Name, set.Name)
	case !apierrors.IsNotFound(err):
		if controllers.Refused(err) {
			c.events.Event(set, corev1.EventTypeWarning, "FailedDelete", "delete Pod %s in StatefulSet %s failed error: %v", pod.Name, set.Name, err)
		}
		return loop.Outcome{}, err
	}
	// A deletion has no revision to wait for; the event brings us back.
	return loop.WaitFor("Pod "+pod.Namespace+"/"+pod.Name, "%s", s.what).In(time.Second), nil
}
