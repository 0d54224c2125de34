// Package storagemigration is the loop that has every object of a resource
// written anew, as it would be stored today: after the storage version of a
// custom kind has changed, no object is left in the old one.
//
//	new --> Running, at the revision of now --> every object written --> Succeeded
//	                                   `--> an object cannot be written --> Failed
//
// An object is written by a patch that changes nothing: the API server stores
// it where its stored form differs, and else writes nothing. An object that
// somebody else has written meanwhile, or that has gone, needs no writing.
//
// Failure: which objects were written is not remembered. A restart goes through
// all again, and those that were written cost a read each.
//
// See https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/.
package storagemigration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "storagemigration"

// Migrations is the resource of StorageVersionMigrations.
var Migrations = storagemigrationv1.SchemeGroupVersion.WithResource("storageversionmigrations")

const (
	// patience is how long a resource may take to be served.
	patience = time.Minute
	// writers write objects at the same time.
	writers = 8
)

// Controller is the loop, wired. Its keys are migrations, by name.
type Controller struct {
	*loop.Loop
	client     client.Interface
	written    controllers.Written
	migrations client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, migrations: opts.Client.View(Migrations, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.migrations, Changed: controllers.LookWhere(c.Loop, goesOn)})
}

func goesOn(m *storagemigrationv1.StorageVersionMigration) bool {
	return !meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationSucceeded)) &&
		!meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationFailed))
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	m := client.In[*storagemigrationv1.StorageVersionMigration](c.migrations, "", key.Name)
	if m == nil || m.DeletionTimestamp != nil || !goesOn(m) {
		return loop.Done(), nil
	}
	name := m.Spec.Resource.Resource
	if m.Spec.Resource.Group != "" {
		name += "." + m.Spec.Resource.Group
	}
	res, served, err := c.resolve(ctx, m)
	switch {
	case err != nil:
		return loop.Outcome{}, fmt.Errorf("find %s: %w", name, err)
	case !served && time.Since(m.CreationTimestamp.Time) < patience:
		return loop.WaitFor("", "nobody serves %s", name).In(time.Second), nil
	case !served:
		return c.tell(ctx, key, m, storagemigrationv1.MigrationFailed, "nobody serves "+name+", or not so that it can be listed and changed")
	}
	if !meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationRunning)) {
		_, revision, err := c.client.List(ctx, res, "", metav1.ListOptions{Limit: 1})
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("list %s: %w", name, err)
		}
		m = m.DeepCopy()
		m.Status.ResourceVersion = revision
		return c.tell(ctx, key, m, storagemigrationv1.MigrationRunning, "")
	}
	objs, _, err := c.client.List(ctx, res, "", metav1.ListOptions{})
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("list %s: %w", name, err)
	}
	if err := c.rewrite(ctx, res, objs); hopeless(err) {
		return c.tell(ctx, key, m, storagemigrationv1.MigrationFailed, err.Error())
	} else if err != nil {
		return loop.Outcome{}, err
	}
	return c.tell(ctx, key, m, storagemigrationv1.MigrationSucceeded, "")
}

// resolve finds in which version a resource is asked for.
func (c *Controller) resolve(ctx context.Context, m *storagemigrationv1.StorageVersionMigration) (res client.Resource, served bool, err error) {
	infos, err := c.client.Resources(ctx)
	if err != nil {
		return res, false, err
	}
	for _, info := range infos {
		if r := info.Resource; r.Group == m.Spec.Resource.Group && r.Resource == m.Spec.Resource.Resource {
			return r, slices.Contains(info.Verbs, "list") && slices.Contains(info.Verbs, "patch"), nil
		}
	}
	return res, false, nil
}

// hopeless tells that an object cannot be written as it is, however often one
// tries. Who forbids it today may allow it tomorrow.
func hopeless(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// rewrite has objects written. The error is that of one of those that could
// not be.
func (c *Controller) rewrite(ctx context.Context, res client.Resource, objs []client.Object) error {
	var mu sync.Mutex
	var failure error
	var wg sync.WaitGroup
	turns := make(chan struct{}, writers)
	for _, obj := range objs {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, obj.GetUID(), obj.GetResourceVersion())
			_, err := c.client.Patch(ctx, res, obj.GetNamespace(), obj.GetName(), types.MergePatchType, []byte(patch))
			if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return // a conflict is with a write that did what ours was for
			}
			mu.Lock()
			defer mu.Unlock()
			if failure == nil || hopeless(err) {
				failure = fmt.Errorf("write %s anew: %w", controllers.KeyOf(obj), err)
			}
		})
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failure
}

// reasons are upstream's.
var reasons = map[storagemigrationv1.MigrationConditionType]string{
	storagemigrationv1.MigrationRunning:   "StorageVersionMigrationInProgress",
	storagemigrationv1.MigrationSucceeded: "StorageVersionMigrationSucceeded",
	storagemigrationv1.MigrationFailed:    "StorageVersionMigrationFailed",
}

// tell writes how far a migration has come. One that has ended runs no more.
func (c *Controller) tell(ctx context.Context, key loop.Key, m *storagemigrationv1.StorageVersionMigration, t storagemigrationv1.MigrationConditionType, message string) (loop.Outcome, error) {
	changed := m.DeepCopy()
	if t != storagemigrationv1.MigrationRunning {
		meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
			Type: string(storagemigrationv1.MigrationRunning), Status: metav1.ConditionFalse, Reason: reasons[storagemigrationv1.MigrationRunning],
		})
	}
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{Type: string(t), Status: metav1.ConditionTrue, Reason: reasons[t], Message: message})
	got, err := c.client.Update(ctx, Migrations, changed, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.migrations, got, err, "change", "the status to %s", t)
}
