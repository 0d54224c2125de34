package deployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "deployment"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	deployments, sets, pods client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:      opts.Client,
		events:      opts.Recorder(),
		deployments: opts.Client.View(client.Deployments, client.ViewOptions{}),
		sets:        opts.Client.View(client.ReplicaSets, client.ViewOptions{}),
		pods:        opts.Client.View(client.Pods, client.ViewOptions{}),
	}
	controllers.IndexBySelector(c.deployments, controllers.MatchLabels(selectorOf))
	client.IndexByController(c.sets)
	client.IndexByController(c.pods)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.deployments, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.sets, Changed: c.setChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged},
	)
}

// setChanged looks at the Deployment that controls a ReplicaSet, or at those
// that may adopt it.
func (c *Controller) setChanged(old, new client.Object) {
	controllers.LookAtController(c.Loop, "Deployment")(old, new)
	controllers.LookAtAdopters(c.Loop, c.deployments, new, selectorOf)
}

func selectorOf(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }

// podChanged looks at a Recreate Deployment when one of its pods has ended.
func (c *Controller) podChanged(old, new client.Object) {
	if new != nil && !controllers.Ended(new.(*corev1.Pod)) {
		return
	}
	key, ok := controllers.ControllerKey(controllers.Present(old, new), "ReplicaSet")
	if !ok {
		return
	}
	rs := client.In[*appsv1.ReplicaSet](c.sets, key.Namespace, key.Name)
	if rs == nil {
		return
	}
	if key, ok := controllers.ControllerKey(rs, "Deployment"); ok {
		d := client.In[*appsv1.Deployment](c.deployments, key.Namespace, key.Name)
		if d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			c.Look(key)
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	d := client.In[*appsv1.Deployment](c.deployments, key.Namespace, key.Name)
	if d == nil {
		return loop.Done(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("spec.selector: %w", err)
	}
	own := controllers.Claim(d, selector, controllers.Candidates[*appsv1.ReplicaSet](c.sets, d, d.Spec.Selector))
	switch {
	case own.Release != nil:
		rs, err := controllers.Release(ctx, c.client, d, client.ReplicaSets, *own.Release)
		return c.written.Outcome(key, c.sets, rs, err, "release", "ReplicaSet %s", (*own.Release).Name)
	case own.Adopt != nil:
		rs, err := controllers.Adopt(ctx, c.client, client.Deployments, d, deploymentKind, client.ReplicaSets, *own.Adopt)
		return c.written.Outcome(key, c.sets, rs, err, "adopt", "ReplicaSet %s", (*own.Adopt).Name)
	}
	s := plan(world{d: d, sets: own.Owned, pods: c.hasPods, now: time.Now()})
	if s.writes() {
		return c.act(ctx, key, d, s)
	}
	if s.wait != "" {
		return loop.WaitFor(s.on, "%s", s.wait).In(s.after), nil
	}
	return loop.Done(), nil
}

func (c *Controller) hasPods(rs types.UID) bool {
	for _, pod := range client.Indexed[*corev1.Pod](c.pods, client.ByController, string(rs)) {
		if !controllers.Ended(pod) {
			return true
		}
	}
	return false
}

// act makes the one write of a step.
func (c *Controller) act(ctx context.Context, key loop.Key, d *appsv1.Deployment, s step) (loop.Outcome, error) {
	switch {
	case s.create != nil:
		rs, err := c.client.Create(ctx, client.ReplicaSets, s.create)
		if err != nil {
			return c.notCreated(ctx, key, d, s.create, err)
		}
		c.written.Note(key, c.sets, rs)
	case s.update != nil:
		rs, err := c.client.Update(ctx, client.ReplicaSets, s.update)
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("update ReplicaSet %s: %w", s.update.Name, err)
		}
		c.written.Note(key, c.sets, rs)
	case s.remove != nil:
		err := c.client.Delete(ctx, client.ReplicaSets, s.remove.Namespace, s.remove.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.remove.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return loop.Outcome{}, fmt.Errorf("delete ReplicaSet %s: %w", s.remove.Name, err)
		}
		// A deletion has no revision to wait for; the event brings us back.
		return loop.WaitFor("ReplicaSet "+s.remove.Namespace+"/"+s.remove.Name, "%s", s.what).In(time.Second), nil
	case s.status != nil:
		got, err := c.client.Update(ctx, client.Deployments, s.status, "status")
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("update the status: %w", err)
		}
		c.written.Note(key, c.deployments, got)
	}
	if s.event != "" {
		c.events.Event(d, corev1.EventTypeNormal, "ScalingReplicaSet", "%s", s.event)
	}
	return loop.Acted("%s", s.what), nil
}

// notCreated deals with a new ReplicaSet that could not be created. One that
// is there already is ours when an answer was lost; another's makes the hash
// change.
func (c *Controller) notCreated(ctx context.Context, key loop.Key, d *appsv1.Deployment, want *appsv1.ReplicaSet, cause error) (loop.Outcome, error) {
	changed := d.DeepCopy()
	w := world{d: d, now: time.Now()}
	switch {
	case apierrors.IsAlreadyExists(cause):
		there, err := client.Get[*appsv1.ReplicaSet](ctx, c.client, client.ReplicaSets, want.Namespace, want.Name)
		if err != nil {
			return loop.Outcome{}, err
		}
		if metav1.IsControlledBy(there, d) && sameTemplate(&there.Spec.Template, &want.Spec.Template) {
			return c.written.Outcome(key, c.sets, there, nil, "discover", "ReplicaSet %s", there.Name)
		}
		n := int32(1)
		if d.Status.CollisionCount != nil {
			n += *d.Status.CollisionCount
		}
		changed.Status.CollisionCount = &n
		got, err := c.client.Update(ctx, client.Deployments, changed, "status")
		return c.written.Outcome(key, c.deployments, got, err, "pass", "over the name %s, which another has", want.Name)
	case controllers.NamespaceEnding(cause):
		return controllers.WaitForNamespace(d.Namespace)
	case !controllers.Refused(cause):
		return loop.Outcome{}, cause
	}
	text := fmt.Sprintf("Failed to create new replica set %q: %v", want.Name, cause)
	c.events.Event(d, corev1.EventTypeWarning, reasonCreateFailed, "%s", text)
	if old := condition(&d.Status, appsv1.DeploymentProgressing); hasDeadline(d) && (old == nil || old.Reason != reasonCreateFailed) {
		set(&changed.Status, w.newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonCreateFailed, text))
		got, err := c.client.Update(ctx, client.Deployments, changed, "status")
		if err != nil {
			return loop.Outcome{}, err
		}
		c.written.Note(key, c.deployments, got)
	}
	return loop.Outcome{}, cause
}
