package namespace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "namespace"

// A namespace that is not empty yet is looked at again after a pause that
// doubles from firstPause to lastPause: its content may be of any kind, and a
// view of every kind would cost more than a few lists while a namespace goes.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Controller is the loop, wired. Its keys are namespaces, by name.
type Controller struct {
	*loop.Loop
	client     client.Interface
	written    controllers.Written
	namespaces client.View

	mu     sync.Mutex
	pauses map[string]time.Duration // guarded by mu: the next pause of each namespace that goes
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:     opts.Client,
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		pauses:     map[string]time.Duration{},
	}
	c.Loop = controllers.NewLoop(opts, Name, 8, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.namespaces, Changed: func(old, new client.Object) {
		if new == nil {
			c.pause(old.GetName(), true)
		} else if new.GetDeletionTimestamp() != nil && (old == nil || old.GetDeletionTimestamp() == nil) {
			c.Look(controllers.KeyOf(new))
		}
	}})
}

// pause returns how long to wait for the next look at a namespace that goes;
// with done it begins anew.
func (c *Controller) pause(name string, done bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done {
		delete(c.pauses, name)
		return 0
	}
	p := c.pauses[name]
	if p == 0 {
		p = firstPause
	}
	c.pauses[name] = min(2*p, lastPause)
	return p
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	ns := client.In[*corev1.Namespace](c.namespaces, "", key.Name)
	if ns == nil || ns.DeletionTimestamp == nil || !holds(ns) {
		return loop.Done(), nil
	}
	found := c.empty(ctx, ns.Name)
	if ctx.Err() != nil {
		return loop.Outcome{}, context.Cause(ctx)
	}
	if found.finished() {
		return c.finalize(ctx, ns)
	}
	pause := c.pause(ns.Name, false)
	// What is gone in a moment is not worth a report.
	if pause > firstPause {
		if changed := report(ns, found, time.Now()); changed != nil {
			got, err := c.client.Update(ctx, client.Namespaces, changed, "status")
			if err != nil {
				return loop.Outcome{}, err
			}
			c.written.Note(key, c.namespaces, got)
		}
	}
	return loop.WaitFor("", "%s", found.blocking()).In(pause), nil
}

func holds(ns *corev1.Namespace) bool {
	return slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
}

// finalize lets the namespace go, as far as we hold it.
func (c *Controller) finalize(ctx context.Context, ns *corev1.Namespace) (loop.Outcome, error) {
	changed := ns.DeepCopy()
	changed.Spec.Finalizers = slices.DeleteFunc(changed.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err := c.client.Update(ctx, client.Namespaces, changed, "finalize")
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Outcome{}, err
	}
	c.pause(ns.Name, true)
	return loop.DoneUntil(time.Second), nil // in case the answer or its event is lost
}

// empty deletes what is in a namespace and tells what is left.
func (c *Controller) empty(ctx context.Context, namespace string) (found contents) {
	resources, err := c.client.Resources(ctx)
	if err != nil {
		found.discovery = err
		return found
	}
	pods := c.emptyOne(ctx, client.ResourceInfo{Resource: client.Pods, Verbs: []string{"list", "delete", "deletecollection"}}, namespace)
	found.all = append(found.all, pods)
	if pods.objects > 0 || pods.err != nil {
		return found
	}
	found.discovery = staleness(resources)
	for _, info := range resources {
		if info.Namespaced && !info.Stale && info.Resource != client.Pods && slices.Contains(info.Verbs, "list") && slices.Contains(info.Verbs, "delete") && ctx.Err() == nil {
			found.all = append(found.all, c.emptyOne(ctx, info, namespace))
		}
	}
	return found
}

// staleness names what cannot be looked into, since whoever serves it does not
// answer; nil: all can. A namespace stays until nothing is left in it for sure,
// as upstream: what is there would come back to life in the next of its name.
func staleness(resources []client.ResourceInfo) error {
	var versions []string
	for _, info := range resources {
		if v := info.Resource.GroupVersion().String(); info.Stale && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	slices.Sort(versions)
	texts := make([]string, len(versions))
	for i, v := range versions {
		texts[i] = v + ": stale GroupVersion discovery: " + v
	}
	return fmt.Errorf("unable to retrieve the complete list of server APIs: %s", strings.Join(texts, ", "))
}

// emptyOne deletes what is there of one resource and is not being deleted
// already.
func (c *Controller) emptyOne(ctx context.Context, info client.ResourceInfo, namespace string) content {
	found := content{resource: info.Resource, finalizers: map[string]int{}}
	objs, _, err := c.client.List(ctx, info.Resource, namespace, metav1.ListOptions{})
	if err != nil {
		found.err = unless(err, info)
		return found
	}
	if waiting(objs) {
		if err := c.deleteAll(ctx, info, namespace, objs); err != nil {
			found.err = unless(err, info)
		}
		if objs, _, err = c.client.List(ctx, info.Resource, namespace, metav1.ListOptions{}); err != nil {
			found.err = unless(err, info)
			return found
		}
	}
	found.objects = len(objs)
	for _, obj := range objs {
		for _, f := range obj.GetFinalizers() {
			found.finalizers[f]++
		}
	}
	return found
}

func waiting(objs []client.Object) bool {
	return slices.ContainsFunc(objs, func(obj client.Object) bool { return obj.GetDeletionTimestamp() == nil })
}

func (c *Controller) deleteAll(ctx context.Context, info client.ResourceInfo, namespace string, objs []client.Object) error {
	background := metav1.DeletePropagationBackground
	del := metav1.DeleteOptions{PropagationPolicy: &background}
	if slices.Contains(info.Verbs, "deletecollection") {
		return c.client.DeleteCollection(ctx, info.Resource, namespace, del, metav1.ListOptions{})
	}
	for _, obj := range objs {
		if err := c.client.Delete(ctx, info.Resource, namespace, obj.GetName(), del); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// unless drops the error of a resource that is not served any more: a kind may
// go away while its objects are deleted.
func unless(err error, info client.ResourceInfo) error {
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", info.Resource.GroupResource(), err)
}
