package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// write is how one kind of write makes a new object of an old one.
type write struct {
	// make returns the new object in the hub version, which is then ours. old
	// is nil when there is none and the kind lets PUT create.
	make func(old kinds.Object) (kinds.Object, error)
	// prepare and validate are the kind's rules for the view that is written.
	prepare  func(ctx context.Context, obj, old kinds.Object)
	validate func(ctx context.Context, obj, old kinds.Object) field.ErrorList
	// mayCreate lets the write create what is not there.
	mayCreate bool
	// trusted leaves out admission and validation (binding).
	trusted bool
	// settled: what make returns is as reading it back would give it, as long as
	// old is, with which it may share what it did not change (binding).
	settled bool
}

// mainChange has the rules for the object itself.
func (res *resource) mainChange() write {
	return write{prepare: res.kind.PrepareUpdate, validate: res.kind.ValidateUpdate}
}

// viewChange has the rules for a subresource that is a view of the kind.
func (res *resource) viewChange(name string, sub *kinds.Subresource) write {
	ch := write{prepare: sub.PrepareUpdate, validate: sub.ValidateUpdate}
	if res.isNamespaces && name == "finalize" && ch.prepare == nil {
		ch.prepare = func(_ context.Context, obj, old kinds.Object) { finalizeNamespace(obj, old) }
	}
	return ch
}

// update replaces an object, or the view of it that c.sub names. obj is in the
// call's version and becomes the server's.
func (s *Server) update(c *call, obj kinds.Object) (answer, error) {
	if err := c.checkNames(obj); err != nil {
		return answer{}, err
	}
	if c.sv.version.Default != nil {
		c.sv.version.Default(obj)
	}
	hub, err := c.sv.toHub(obj)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	ch := c.sv.mainChange()
	if c.sub != "" {
		ch = c.sv.viewChange(c.sub, c.sv.kind.Subresources[c.sub])
	} else {
		ch.mayCreate = c.sv.kind.AllowCreateOnUpdate
	}
	first := true
	// Each try changes its object, so a second needs a fresh copy. Most writes
	// have one try: the copy is put off until the first has failed.
	pristine := hub
	if c.sv.kind.AllowUnconditionalUpdate && hub.GetResourceVersion() == "" {
		pristine = hub.DeepCopyObject().(kinds.Object)
	}
	ch.make = func(kinds.Object) (kinds.Object, error) {
		if first {
			first = false
			return hub, nil
		}
		return pristine.DeepCopyObject().(kinds.Object), nil
	}
	return s.change(c, ch)
}

// checkNames sees that an object that replaces another says what the request
// says.
func (c *call) checkNames(obj kinds.Object) error {
	switch name, ns := obj.GetName(), obj.GetNamespace(); {
	case name == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.name))
	case name != c.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.name))
	case c.namespace != "" && ns != "" && ns != c.namespace:
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", ns, c.namespace))
	}
	return c.checkNamespace(obj)
}

// change reads the object, makes the new one, and writes it if nobody wrote
// in between; else it starts over, as long as the request has time: whoever
// loses a race lost it to somebody who got on. What names a revision has one
// try only.
func (s *Server) change(c *call, ch write) (answer, error) {
	res := c.sv.resource
	key := res.key(c.namespace, c.name)
	for {
		if err := c.ctx.Err(); err != nil {
			return answer{}, err
		}
		rec, _, err := s.store.Get(c.ctx, key)
		if err != nil {
			return answer{}, storeError(err)
		}
		if rec == nil {
			return s.createOnChange(c, ch)
		}
		a, again, err := s.changeRecord(c, ch, rec)
		if !again {
			return a, err
		}
	}
}

func (s *Server) createOnChange(c *call, ch write) (answer, error) {
	res := c.sv.resource
	if !ch.mayCreate {
		return answer{}, apierrors.NewNotFound(res.gr, c.name)
	}
	obj, err := ch.make(nil)
	if err != nil {
		return answer{}, err
	}
	if rv := obj.GetResourceVersion(); rv != "" && rv != "0" {
		return answer{}, apierrors.NewNotFound(res.gr, c.name)
	}
	obj.SetResourceVersion("")
	return s.createHub(c, obj)
}

// changeRecord tries once. again says that somebody else wrote.
func (s *Server) changeRecord(c *call, ch write, rec *store.Record) (a answer, again bool, err error) {
	res := c.sv.resource
	oldEntry, err := s.entryOf(res, rec)
	if err != nil {
		return answer{}, false, err
	}
	old := oldEntry.obj
	obj, err := ch.make(old)
	if err != nil {
		return answer{}, false, err
	}
	if err := s.checkVersion(c, obj, old); err != nil {
		return answer{}, false, err
	}
	if !ch.trusted {
		s.track(c, obj, old)
	}
	req := &admission.Request{Operation: admission.Update, Object: obj, Old: old, Name: c.name}
	done := func(error) {}
	if !ch.trusted {
		if done, err = s.admit(c, req); err != nil {
			return answer{}, false, err
		}
	}
	a, again, err = s.changeAdmitted(c, ch, req, rec, oldEntry)
	if again {
		done(errOptimisticLock)
	} else {
		done(err)
	}
	return a, again, err
}

// checkVersion compares what the new object says of the old one.
func (s *Server) checkVersion(c *call, obj, old kinds.Object) error {
	res := c.sv.resource
	rv := obj.GetResourceVersion()
	if rv == "0" {
		rv = ""
	}
	switch {
	case rv == "" && !res.kind.AllowUnconditionalUpdate && c.sub == "":
		return apierrors.NewInvalid(res.hub.gvk.GroupKind(), c.name, field.ErrorList{
			field.Invalid(metadataPath.Child("resourceVersion"), uint64(0), "must be specified for an update")})
	case rv != "" && rv != old.GetResourceVersion():
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return apierrors.NewInvalid(res.hub.gvk.GroupKind(), c.name, field.ErrorList{
				field.Invalid(metadataPath.Child("resourceVersion"), rv, err.Error())})
		}
		return apierrors.NewConflict(res.gr, c.name, errOptimisticLock)
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return errUIDPrecondition(res.gr, c.name, uid, old.GetUID())
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	return nil
}

func (s *Server) changeAdmitted(c *call, ch write, req *admission.Request, rec *store.Record, oldEntry *entry) (answer, bool, error) {
	res, obj, old := c.sv.resource, req.Object, oldEntry.obj
	keepOld(obj, old)
	if ch.prepare != nil {
		ch.prepare(c.ctx, obj, old)
	}
	if !ch.trusted {
		if errs := c.sv.validateChanged(c.ctx, c.sub, obj, old, ch.validate); len(errs) > 0 {
			return answer{}, false, apierrors.NewInvalid(res.hub.gvk.GroupKind(), c.name, errs)
		}
		if err := s.validateAdmission(c, req); err != nil {
			return answer{}, false, err
		}
		if res.kind.Warnings != nil && c.sub == "" {
			c.warnings = c.warnings[:len(c.warnings):len(c.warnings)]
			c.warn(res.kind.Warnings(c.ctx, obj, old)...)
		}
	}
	value, err := res.encodeStored(obj)
	if err != nil {
		return answer{}, false, err
	}
	if len(value) > maxObject {
		return answer{}, false, errTooLargeObject
	}
	if res.unchanged(value, rec.Value, obj, old) && !res.removable(obj) {
		return answer{code: http.StatusOK, entry: oldEntry}, false, nil
	}
	e := &entry{res: res, obj: obj}
	if !ch.settled {
		if e, err = s.written(res, obj, value); err != nil {
			return answer{}, false, err
		}
	}
	if c.dryRun {
		return answer{code: http.StatusOK, entry: e}, false, nil
	}
	if res.removable(obj) {
		_, err := s.store.Delete(c.ctx, rec.Key, rec.Revision)
		if conflict := (*store.Conflict)(nil); errors.As(err, &conflict) {
			return answer{}, true, nil
		}
		if err != nil {
			return answer{}, false, storeError(err)
		}
		return answer{code: http.StatusOK, entry: e}, false, nil
	}
	_, err = s.store.Put(c.ctx, store.Put{Key: rec.Key, Expect: rec.Revision, Fill: s.fill(res, value, e)})
	if conflict := (*store.Conflict)(nil); errors.As(err, &conflict) {
		return answer{}, true, nil
	}
	if err != nil {
		return answer{}, false, storeError(err)
	}
	return answer{code: http.StatusOK, entry: e}, false, nil
}

// removable tells whether nothing keeps a deleted object any more.
func (res *resource) removable(obj kinds.Object) bool {
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	return !res.holdsOn(obj)
}
