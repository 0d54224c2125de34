package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "horizontalpodautoscaler"

// period is how often each autoscaler is looked at.
const period = 15 * time.Second

// workers wait for servers of metrics most of the time.
const workers = 5

// Autoscalers is the resource.
var Autoscalers = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written
	kinds   *kinds
	source  *source
	selects selectors

	scalers, pods client.View

	mu        sync.Mutex
	histories map[loop.Key]*history // guarded by mu; each is changed by the look at its key
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client, events: opts.Recorder(), kinds: &kinds{client: opts.Client}, histories: map[loop.Key]*history{},
		scalers: opts.Client.View(Autoscalers, client.ViewOptions{}), pods: opts.Client.View(client.Pods, client.ViewOptions{}),
	}
	c.source = &source{client: opts.Client, kinds: c.kinds}
	controllers.IndexByLabel(c.pods)
	c.Loop = controllers.NewLoop(opts, Name, workers, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.scalers, Changed: func(old, new client.Object) {
			if old != nil && new != nil && old != new && old.GetUID() == new.GetUID() && old.GetGeneration() == new.GetGeneration() {
				return // its status
			}
			c.Look(controllers.KeyOf(controllers.Present(old, new)))
		}},
		controllers.Input{View: c.pods},
	)
}

func (c *Controller) history(key loop.Key) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.histories[key]
	if h == nil {
		h = &history{}
		c.histories[key] = h
	}
	return h
}

func (c *Controller) forget(key loop.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.histories, key)
	c.selects.forget(key)
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	h := client.In[*autoscalingv2.HorizontalPodAutoscaler](c.scalers, key.Namespace, key.Name)
	if h == nil {
		c.forget(key)
		return loop.Done(), nil
	}
	if h.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	resource, scale, err := c.scaleOf(ctx, h)
	if err != nil {
		return c.noScale(ctx, key, h, err)
	}
	w := c.look(ctx, key, h, scale)
	s := plan(w)
	failed := error(nil)
	if s.rescale {
		failed = c.rescale(ctx, &w, &s, resource)
		if apierrors.IsConflict(failed) {
			return loop.Acted("met another write of the scale"), nil
		}
	}
	for _, e := range s.events {
		c.events.Event(h, e.kind, e.reason, "%s", e.message)
	}
	if o, err := c.tell(ctx, key, h, &s.status); err != nil || o.State == loop.Acting {
		return o, errors.Join(err, failed)
	}
	if failed != nil {
		return loop.Outcome{}, failed
	}
	return c.settled(h, &s), nil
}

// look reads what plan needs.
func (c *Controller) look(ctx context.Context, key loop.Key, h *autoscalingv2.HorizontalPodAutoscaler, scale *autoscalingv1.Scale) world {
	w := world{hpa: h, scale: scale, history: c.history(key), measured: make([]measured, len(h.Spec.Metrics))}
	by, err := labels.Parse(scale.Status.Selector)
	if err == nil && scale.Status.Selector == "" {
		err = errors.New("selector is required")
	}
	if err != nil {
		w.invalid, w.now = err, time.Now()
		c.selects.set(key, nil)
		return w
	}
	c.selects.set(key, by)
	if !w.history.begun {
		c.meet(ctx, key)
	}
	w.pods = c.selected(key.Namespace, by)
	w.rivals = c.selects.selecting(key, w.pods, func(k loop.Key) bool { return c.scalers.Get(k.Namespace, k.Name) != nil })
	if scale.Spec.Replicas != 0 && len(w.rivals) < 2 {
		for i := range h.Spec.Metrics {
			w.measured[i] = c.source.measure(ctx, key.Namespace, by, &h.Spec.Metrics[i])
		}
	}
	w.now = time.Now() // of the measurements, which may have taken a while
	return w
}

// selected are the pods that a selector selects.
func (c *Controller) selected(namespace string, by labels.Selector) []*corev1.Pod {
	var pods []*corev1.Pod
	if set := required(by); len(set) > 0 {
		pods = controllers.Selected[*corev1.Pod](c.pods, namespace, set)
	} else {
		pods = client.Listed[*corev1.Pod](c.pods, namespace)
	}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !by.Matches(labels.Set(p.Labels)) })
}

// meet looks, before the first look at an autoscaler, at what the others of its
// namespace select that were not looked at yet: a loop that has just started is
// to touch nothing that two want.
func (c *Controller) meet(ctx context.Context, key loop.Key) {
	for _, other := range client.Listed[*autoscalingv2.HorizontalPodAutoscaler](c.scalers, key.Namespace) {
		at := controllers.KeyOf(other)
		if at == key || c.selects.known(at) {
			continue
		}
		if _, scale, err := c.scaleOf(ctx, other); err == nil && scale.Status.Selector != "" {
			if by, err := labels.Parse(scale.Status.Selector); err == nil {
				c.selects.set(at, by)
			}
		}
	}
}

// noScale tells that the target's scale could not be read.
func (c *Controller) noScale(ctx context.Context, key loop.Key, h *autoscalingv2.HorizontalPodAutoscaler, err error) (loop.Outcome, error) {
	c.selects.set(key, nil)
	s := step{status: *h.Status.DeepCopy()}
	message := fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err)
	w := world{hpa: h, now: time.Now()}
	if !w.known(autoscalingv2.AbleToScale, "FailedGetScale", message) {
		c.events.Event(h, corev1.EventTypeWarning, "FailedGetScale", "%v", err)
	}
	s.status.ObservedGeneration = &h.Generation
	w.set(&s, autoscalingv2.AbleToScale, false, "FailedGetScale", message)
	if o, err := c.tell(ctx, key, h, &s.status); err != nil || o.State == loop.Acting {
		return o, err
	}
	return loop.WaitFor(h.Spec.ScaleTargetRef.Kind+" "+h.Namespace+"/"+h.Spec.ScaleTargetRef.Name, "its scale cannot be read: %v", err).In(period), nil
}

// rescale writes the scale.
func (c *Controller) rescale(ctx context.Context, w *world, s *step, resource client.Resource) error {
	from, to := w.scale.Spec.Replicas, s.desired
	scale := w.scale.DeepCopy()
	scale.Spec.Replicas = to
	_, err := c.client.Update(ctx, resource, scale, "scale")
	switch {
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		s.events = append(s.events, event{corev1.EventTypeWarning, "FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", to, s.why, err)})
		w.set(s, autoscalingv2.AbleToScale, false, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		s.status.DesiredReplicas = w.hpa.Status.DesiredReplicas
		return fmt.Errorf("failed to rescale %s: %w", w.hpa.Spec.ScaleTargetRef.Name, err)
	}
	w.history.scaled(from, to, w.now)
	w.set(s, autoscalingv2.AbleToScale, true, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", to))
	s.events = append(s.events, event{corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", to, s.why)})
	now := metav1.NewTime(w.now).Rfc3339Copy()
	s.status.LastScaleTime = &now
	return nil
}

// tell writes the status, if it says something new. The next look is in its
// time: nothing has changed but what is told.
func (c *Controller) tell(ctx context.Context, key loop.Key, h *autoscalingv2.HorizontalPodAutoscaler, status *autoscalingv2.HorizontalPodAutoscalerStatus) (loop.Outcome, error) {
	if equality.Semantic.DeepEqual(*status, h.Status) {
		return loop.Done(), nil
	}
	changed := *h // Update copies what it is given
	changed.Status = *status
	got, err := c.client.Update(ctx, Autoscalers, &changed, "status")
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return loop.Acted("met another write"), nil
	case err != nil:
		return loop.Outcome{}, fmt.Errorf("update the status: %w", err)
	}
	c.written.Note(key, c.scalers, got)
	return loop.Done(), nil
}

// settled is what an autoscaler waits for until the next look.
func (c *Controller) settled(h *autoscalingv2.HorizontalPodAutoscaler, s *step) loop.Outcome {
	on := h.Spec.ScaleTargetRef.Kind + " " + h.Namespace + "/" + h.Spec.ScaleTargetRef.Name
	if s.err != nil {
		return loop.WaitFor(on, "%v", s.err).In(period)
	}
	return loop.DoneUntil(period)
}
