package disruption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "disruption"

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	budgets, pods, deployments, sets, stateful, older client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	view := func(res client.Resource) client.View { return opts.Client.View(res, client.ViewOptions{}) }
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		budgets: view(client.PodDisruptionBudgets), pods: view(client.Pods), deployments: view(client.Deployments),
		sets: view(client.ReplicaSets), stateful: view(client.StatefulSets), older: view(client.ReplicationControllers),
	}
	controllers.IndexByLabel(c.pods)
	controllers.IndexBySelector(c.budgets, controllers.MatchLabels(func(b *policyv1.PodDisruptionBudget) *metav1.LabelSelector { return b.Spec.Selector }))
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	owner := func(template func(client.Object) *corev1.PodTemplateSpec) func(old, new client.Object) {
		return func(old, new client.Object) {
			if old != nil && new != nil && old.GetGeneration() == new.GetGeneration() && old != new {
				return // its status
			}
			obj := controllers.Present(old, new)
			if t := template(obj); t != nil {
				c.lookAt(obj.GetNamespace(), t.Labels)
			}
		}
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.budgets, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.pods, Changed: c.podChanged},
		controllers.Input{View: c.deployments, Changed: owner(func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template })},
		controllers.Input{View: c.sets, Changed: owner(func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template })},
		controllers.Input{View: c.stateful, Changed: owner(func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template })},
		controllers.Input{View: c.older, Changed: owner(func(o client.Object) *corev1.PodTemplateSpec { return o.(*corev1.ReplicationController).Spec.Template })},
	)
}

// podChanged looks at the budgets that select a pod, or did.
func (c *Controller) podChanged(old, new client.Object) {
	for _, obj := range []client.Object{old, new} {
		if obj != nil {
			c.lookAt(obj.GetNamespace(), obj.GetLabels())
		}
	}
}

func (c *Controller) lookAt(namespace string, set map[string]string) {
	for _, b := range controllers.Selecting[*policyv1.PodDisruptionBudget](c.budgets, namespace, set) {
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(set)) {
			c.Look(controllers.KeyOf(b))
		}
	}
}

// selected are the pods of a budget. An empty selector selects a whole
// namespace, none at all nothing.
func (c *Controller) selected(b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	var pods []*corev1.Pod
	if b.Spec.Selector != nil && len(b.Spec.Selector.MatchLabels) > 0 {
		pods = controllers.Selected[*corev1.Pod](c.pods, b.Namespace, b.Spec.Selector.MatchLabels)
	} else {
		pods = client.Listed[*corev1.Pod](c.pods, b.Namespace)
	}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) }), nil
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	b := client.In[*policyv1.PodDisruptionBudget](c.budgets, key.Namespace, key.Name)
	if b == nil {
		return loop.Done(), nil
	}
	pods, err := c.selected(b)
	if err != nil {
		return loop.Outcome{}, err
	}
	s := plan(world{budget: b, pods: pods, now: time.Now(), scale: c.scale(ctx)})
	if s.status != nil {
		c.tell(b, pods, s)
		changed := *b // Update copies what it is given
		changed.Status = *s.status
		got, err := c.client.Update(ctx, client.PodDisruptionBudgets, &changed, "status")
		return c.written.Outcome(key, c.budgets, got, err, "update", "the status")
	}
	if s.err != nil { // an owner that the views do not show may be there soon
		return loop.WaitFor("", "cannot tell how many pods are expected: %v", s.err).In(max(s.after, 10*time.Second)), nil
	}
	return loop.DoneUntil(s.after), nil
}

// tell people what a budget cannot do.
func (c *Controller) tell(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, s step) {
	if len(pods) == 0 {
		c.events.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if len(s.unmanaged) > 0 {
		slices.Sort(s.unmanaged)
		c.events.Event(b, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %s) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value: %s",
			metav1.FormatLabelSelector(b.Spec.Selector), strings.Join(s.unmanaged, ", "))
	}
	if s.err != nil {
		c.events.Event(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", s.err)
	}
	for _, name := range s.stayed {
		c.events.Event(b, corev1.EventTypeWarning, "NotDeleted", "Pod %s was expected to be deleted and is still there", name)
	}
}
