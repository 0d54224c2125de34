package apiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// orphansByDefault are the kinds whose dependents stay when a request does not
// say: those that were there before the garbage collector.
var orphansByDefault = map[string]bool{"jobs.batch": true, "replicationcontrollers": true}

// delete takes an object away, or marks it and leaves it to whoever holds it:
// its finalizers and, for a pod, its grace period.
func (s *Server) delete(c *call, opts *metav1.DeleteOptions) (answer, error) {
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return answer{}, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", errs)
	}
	res := c.sv.resource
	if res.isNamespaces && immortal[c.name] {
		return answer{}, apierrors.NewForbidden(res.gr, c.name, errors.New("this namespace may not be deleted"))
	}
	if len(opts.DryRun) > 0 {
		c.dryRun = true
	}
	key := res.key(c.namespace, c.name)
	settle := func(error) {} // tells the plugins how it went
	for try := 0; ; try++ {
		rec, e, err := s.deletable(c, key, opts)
		if err == nil && try == 0 {
			settle, err = s.admitDelete(c, e.obj)
		}
		var a answer
		again := false
		if err == nil {
			a, again, err = s.deleteRecord(c, rec, e, opts)
		}
		if again {
			continue
		}
		switch {
		case err != nil:
			settle(err)
		case a.gone:
			settle(nil)
		default:
			settle(errStillThere)
		}
		return a, err
	}
}

// errStillThere tells plugins that an object was marked, but has not gone.
var errStillThere = errors.New("the object is held by finalizers or its grace period")

// deletable reads what is to be deleted.
func (s *Server) deletable(c *call, key string, opts *metav1.DeleteOptions) (*store.Record, *entry, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, nil, err
	}
	rec, _, err := s.store.Get(c.ctx, key)
	if err != nil {
		return nil, nil, storeError(err)
	}
	if rec == nil {
		return nil, nil, apierrors.NewNotFound(c.sv.gr, c.name)
	}
	e, err := s.entryOf(c.sv.resource, rec)
	if err != nil {
		return nil, nil, err
	}
	return rec, e, checkPreconditions(c, e.obj, opts.Preconditions)
}

// admitDelete asks the plugins. The func it returns must be called with the
// outcome.
func (s *Server) admitDelete(c *call, old kinds.Object) (settle func(error), err error) {
	settle = func(error) {}
	if len(s.cfg.Admission) == 0 || c.admitted {
		return settle, nil
	}
	req := &admission.Request{Operation: admission.Delete, Old: old, Name: c.name}
	done, err := s.admit(c, req)
	if err != nil {
		return settle, err
	}
	return done, s.validateAdmission(c, req)
}

func checkPreconditions(c *call, obj kinds.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return errUIDPrecondition(c.sv.gr, c.name, *p.UID, obj.GetUID())
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return errRVPrecondition(c.sv.gr, c.name, *p.ResourceVersion, obj.GetResourceVersion())
	}
	return nil
}

// deleteRecord tries once. again says that somebody else wrote.
func (s *Server) deleteRecord(c *call, rec *store.Record, e *entry, opts *metav1.DeleteOptions) (a answer, again bool, err error) {
	res := c.sv.resource
	plan := res.planDelete(e.obj, opts, time.Now())
	switch {
	case plan.pending:
		return c.deleted(e, opts, false), false, nil
	case plan.marked != nil:
		value, err := res.encodeStored(plan.marked)
		if err != nil {
			return answer{}, false, err
		}
		ne, err := s.written(res, plan.marked, value)
		if err != nil {
			return answer{}, false, err
		}
		if !c.dryRun {
			_, err = s.store.Put(c.ctx, store.Put{Key: rec.Key, Expect: rec.Revision, Fill: s.fill(res, value, ne)})
			if conflict := (*store.Conflict)(nil); errors.As(err, &conflict) {
				return answer{}, true, nil
			}
			if err != nil {
				return answer{}, false, storeError(err)
			}
		}
		return c.deleted(ne, opts, false), false, nil
	}
	if c.dryRun {
		return c.deleted(e, opts, true), false, nil
	}
	ev, err := s.store.Delete(c.ctx, rec.Key, rec.Revision)
	if conflict := (*store.Conflict)(nil); errors.As(err, &conflict) {
		return answer{}, true, nil
	}
	if err != nil {
		return answer{}, false, storeError(err)
	}
	if res.kind.ShowsDeleted() {
		if ev.Prev == nil {
			ev.Prev = rec
		}
		if e, err = s.lastState(res, ev); err != nil {
			return answer{}, false, err
		}
	}
	return c.deleted(e, opts, true), false, nil
}

// deleted is the answer: the object while it is still there, and for most
// kinds a Status once it has gone.
func (c *call) deleted(e *entry, opts *metav1.DeleteOptions, gone bool) answer {
	if gone && !c.sv.kind.ShowsDeleted() {
		a := success(&metav1.StatusDetails{Name: c.name, Group: c.sv.gr.Group, Kind: c.sv.gr.Resource, UID: e.obj.GetUID()})
		a.gone = true
		return a
	}
	code := http.StatusOK
	if !gone && opts.OrphanDependents != nil && !*opts.OrphanDependents {
		code = http.StatusAccepted
	}
	return answer{code: code, entry: e, gone: gone}
}

// deletePlan says what one delete request does to an object.
type deletePlan struct {
	pending bool         // nothing: its deletion is under way
	marked  kinds.Object // it becomes this; nil: it goes
}

// planDelete decides. It is pure.
// https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
// https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
func (res *resource) planDelete(obj kinds.Object, opts *metav1.DeleteOptions, at time.Time) deletePlan {
	if prepare := res.kind.PrepareDelete; prepare != nil && obj.GetDeletionTimestamp() == nil {
		obj = obj.DeepCopyObject().(kinds.Object)
		prepare(context.Background(), obj)
	}
	finalizers := res.finalizersFor(obj, opts)
	held := len(finalizers) > 0 || res.holdsOn(obj)
	if res.kind.Grace == nil && !held {
		return deletePlan{}
	}
	marked := obj.DeepCopyObject().(kinds.Object)
	changedFinalizers := !slices.Equal(finalizers, obj.GetFinalizers())

	graceful := false
	var grace int64
	if res.kind.Grace != nil {
		if obj.GetDeletionTimestamp() != nil {
			left := obj.GetDeletionGracePeriodSeconds()
			if left != nil && *left > 0 {
				// A pending deletion can only be hastened.
				if opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds >= *left {
					return deletePlan{pending: true}
				}
				grace = max(0, *opts.GracePeriodSeconds)
				graceful = true
				t := metav1.NewTime(obj.GetDeletionTimestamp().Add(time.Duration(grace-*left) * time.Second))
				marked.SetDeletionTimestamp(&t)
				marked.SetDeletionGracePeriodSeconds(&grace)
			}
		} else if seconds, yes := res.kind.Grace(obj, opts.GracePeriodSeconds); yes {
			grace, graceful = seconds, true
			t := metav1.NewTime(at.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
			marked.SetDeletionTimestamp(&t)
			marked.SetDeletionGracePeriodSeconds(&grace)
			if g := marked.GetGeneration(); g > 0 {
				marked.SetGeneration(g + 1)
			}
		}
	}
	if !graceful && held {
		if obj.GetDeletionTimestamp() != nil && !changedFinalizers {
			return deletePlan{pending: true}
		}
		markDeleted(marked, at)
	}
	if !held && (!graceful || grace == 0) {
		return deletePlan{}
	}
	if changedFinalizers {
		marked.SetFinalizers(finalizers)
	}
	if res.isNamespaces {
		markTerminating(marked)
	}
	return deletePlan{marked: marked}
}

// markDeleted sets what says that an object is to go as soon as nobody holds
// it.
func markDeleted(obj kinds.Object, at time.Time) {
	if g := obj.GetGeneration(); g > 0 && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetGeneration(g + 1)
	}
	if t := obj.GetDeletionTimestamp(); t == nil || t.After(at) {
		t := metav1.NewTime(at.Truncate(time.Second))
		obj.SetDeletionTimestamp(&t)
	}
	obj.SetDeletionGracePeriodSeconds(new(int64))
}

// finalizersFor adds or removes the two finalizers by which the garbage
// collector is asked to orphan dependents, or to delete them first.
func (res *resource) finalizersFor(obj kinds.Object, opts *metav1.DeleteOptions) []string {
	had := obj.GetFinalizers()
	hasOrphan := slices.Contains(had, metav1.FinalizerOrphanDependents)
	hasForeground := slices.Contains(had, metav1.FinalizerDeleteDependents)
	orphan, foreground := hasOrphan, hasForeground && !hasOrphan
	switch {
	case opts.OrphanDependents != nil:
		orphan, foreground = *opts.OrphanDependents, false
	case opts.PropagationPolicy != nil:
		orphan = *opts.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *opts.PropagationPolicy == metav1.DeletePropagationForeground
	case !hasOrphan && !hasForeground:
		orphan = orphansByDefault[res.gr.String()]
	}
	if orphan == hasOrphan && foreground == hasForeground {
		return had
	}
	out := slices.DeleteFunc(slices.Clone(had), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}
