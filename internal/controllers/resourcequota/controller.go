// Package resourcequota is the loop that keeps the status of ResourceQuotas:
// what their namespaces use. The admission plugin of the same name takes from
// the status before an object is stored; the loop counts anew what is there,
// and so gives back what deletions free and what a crash lost.
//
// Use: New(options).Run(ctx).
//
// Concurrency: as package loop. Both the plugin and the loop write the status
// against each other: a write that does not build on the other's fails.
//
// Failure: a resource that nobody serves is counted as none.
//
// Views of resources that a quota counts come with the first quota that does.
//
// See https://kubernetes.io/docs/concepts/policy/resource-quotas/.
package resourcequota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/quota"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "resourcequota"

const (
	// recount is how long after admission took from a quota the object is
	// stored by: what was counted without it is put right then.
	recount = 5 * time.Second
	// resync is how often everything is counted in any case.
	resync = 5 * time.Minute
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	written controllers.Written
	quotas  client.View

	mu      sync.Mutex
	counted map[schema.GroupResource]client.View // guarded by mu: what quotas count
	stop    []func()                             // guarded by mu
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client:  opts.Client,
		quotas:  opts.Client.View(client.ResourceQuotas, client.ViewOptions{}),
		counted: map[schema.GroupResource]client.View{},
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, stop := range c.stop {
			stop()
		}
	}()
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.quotas, Changed: c.quotaChanged})
}

// quotaChanged looks at a quota that claims something else. When admission has
// taken from one, the object is not stored yet: that is no time to count.
func (c *Controller) quotaChanged(old, new client.Object) {
	q, _ := new.(*corev1.ResourceQuota)
	had, _ := old.(*corev1.ResourceQuota)
	switch {
	case q == nil:
	case had != nil && had != q && equality.Semantic.DeepEqual(had.Spec, q.Spec) && equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard):
		c.LookAfter(controllers.KeyOf(q), recount)
	default:
		c.Look(controllers.KeyOf(q))
	}
}

// view of a resource that is counted; nil when nobody serves it.
func (c *Controller) view(ctx context.Context, res schema.GroupResource) (client.View, error) {
	c.mu.Lock()
	v := c.counted[res]
	c.mu.Unlock()
	if v != nil {
		return v, nil
	}
	var gvr client.Resource
	opts := client.ViewOptions{}
	if res.Group == "" { // what is used of these their specs tell
		gvr = res.WithVersion("v1")
	}
	served, err := c.client.Resources(ctx)
	if err != nil {
		return nil, err
	}
	found := false
	for _, r := range served {
		if r.Resource.GroupResource() == res && r.Namespaced {
			gvr, found = r.Resource, true
		}
	}
	if !found {
		return nil, nil
	}
	switch res {
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"}, schema.GroupResource{Resource: "persistentvolumeclaims"}:
	default:
		opts.Metadata = true
	}
	v = c.client.View(gvr, opts)
	if err := v.WaitSynced(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if had := c.counted[res]; had != nil {
		return had, nil
	}
	c.counted[res] = v
	c.stop = append(c.stop, v.Handle(c.changed(res)))
	return v, nil
}

// changed looks at the quotas of a namespace where something has come, gone or
// come to use another amount: at once when something is free again.
func (c *Controller) changed(res schema.GroupResource) func(old, new client.Object) {
	return func(old, new client.Object) {
		var delay time.Duration
		if new != nil {
			now := time.Now()
			switch {
			case old == nil:
				delay = recount
			case (old.GetDeletionTimestamp() == nil) != (new.GetDeletionTimestamp() == nil):
			case equality.Semantic.DeepEqual(quota.Usage(res, old, now), quota.Usage(res, new, now)):
				return
			}
		}
		for _, q := range client.Listed[*corev1.ResourceQuota](c.quotas, controllers.Present(old, new).GetNamespace()) {
			for name := range q.Spec.Hard {
				if of, ok := quota.Counted(name); ok && of == res {
					c.LookAfter(controllers.KeyOf(q), delay)
					break
				}
			}
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	q := client.In[*corev1.ResourceQuota](c.quotas, key.Namespace, key.Name)
	if q == nil || q.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	used, after, err := c.count(ctx, q)
	if err != nil {
		return loop.Outcome{}, err
	}
	st := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: used}
	if equality.Semantic.DeepEqual(st, q.Status) {
		return loop.DoneUntil(after), nil
	}
	c.LookAfter(key, recount)
	changed := *q // Update copies what it is given
	changed.Status = st
	got, err := c.client.Update(ctx, client.ResourceQuotas, &changed, "status")
	return c.written.Outcome(key, c.quotas, got, err, "update", "the status")
}

// count sums up what a quota's namespace uses, and says when to count again.
func (c *Controller) count(ctx context.Context, q *corev1.ResourceQuota) (used corev1.ResourceList, after time.Duration, err error) {
	used, after = corev1.ResourceList{}, resync
	sum := corev1.ResourceList{}
	seen := map[schema.GroupResource]bool{}
	now := time.Now()
	for name := range q.Spec.Hard {
		res, ok := quota.Counted(name)
		if !ok || seen[res] {
			continue
		}
		seen[res] = true
		v, err := c.view(ctx, res)
		if err != nil {
			return nil, 0, err
		}
		if v == nil {
			continue
		}
		for _, obj := range v.List(q.Namespace) {
			if !quota.Matches(q, obj) {
				continue
			}
			sum = addOnly(sum, quota.Usage(res, obj, now), q.Spec.Hard)
			if d := frees(obj, now); d > 0 && d < after {
				after = d
			}
		}
	}
	for name, hard := range q.Spec.Hard {
		amount, ok := sum[name]
		if !ok {
			amount = hard.DeepCopy()
			amount.Sub(hard)
		}
		used[name] = amount
	}
	return used, after, nil
}

func addOnly(sum, more, names corev1.ResourceList) corev1.ResourceList {
	for name, q := range more {
		if _, ok := names[name]; ok {
			had := sum[name]
			had.Add(q)
			sum[name] = had
		}
	}
	return sum
}

// frees is how long until a pod that is being deleted uses nothing any more;
// 0: that does not go by time.
func frees(obj metav1.Object, now time.Time) time.Duration {
	at := obj.GetDeletionTimestamp()
	if at == nil || obj.GetDeletionGracePeriodSeconds() == nil || now.After(at.Time) {
		return 0
	}
	return at.Sub(now) + time.Millisecond
}
