package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// maxNameTries is how many names are tried for a generateName.
const maxNameTries = 8

var errVersionOnCreate = errors.New("resourceVersion should not be set on objects to be created")

// create stores a new object. obj is in the call's version and becomes the
// server's.
func (s *Server) create(c *call, obj kinds.Object) (answer, error) {
	if b, ok := obj.(*corev1.Binding); ok && s.catalog().pods != nil { // the old way to POST pods/NAME/binding
		bc := *c
		bc.sv, bc.name, bc.sub = s.catalog().pods.hub, b.Name, "binding"
		return s.bind(&bc, b)
	}
	if c.sv.kind.StoragePrefix == "" {
		return answer{}, errNotServed() // a review that no handler answers
	}
	if c.sv.closed.Load() {
		return answer{}, apierrors.NewForbidden(c.sv.gr, obj.GetName(), errClosed)
	}
	if err := c.checkNamespace(obj); err != nil {
		return answer{}, err
	}
	if c.sv.version.Default != nil {
		c.sv.version.Default(obj)
	}
	hub, err := c.sv.toHub(obj)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	return s.createHub(c, hub)
}

// createHub is create for a defaulted object of the hub version.
func (s *Server) createHub(c *call, obj kinds.Object) (answer, error) {
	res := c.sv.resource
	if err := s.checkNamespaceLives(c, obj); err != nil {
		return answer{}, err
	}
	s.track(c, obj, nil)
	req := &admission.Request{Operation: admission.Create, Object: obj, Name: obj.GetName()}
	done, err := s.admit(c, req)
	if err != nil {
		return answer{}, err
	}
	a, err := s.admitted(c, res, req)
	done(err)
	return a, err
}

// admitted is the rest of a create.
func (s *Server) admitted(c *call, res *resource, req *admission.Request) (answer, error) {
	obj := req.Object
	versioned := obj.GetResourceVersion() != "" && obj.GetResourceVersion() != "0"
	fillNew(obj)
	if res.kind.PrepareCreate != nil {
		res.kind.PrepareCreate(c.ctx, obj)
	}
	if res.isNamespaces {
		prepareNamespace(obj)
	}
	generate := obj.GetName() == "" && obj.GetGenerateName() != ""
	for try := 1; ; try++ {
		if generate {
			obj.SetName(generateName(obj.GetGenerateName()))
			if d := res.kind.HubVersion().Default; d != nil {
				d(obj) // some defaults are made of the name: a namespace's label
			}
		}
		if errs := c.sv.validateNew(c.ctx, obj); len(errs) > 0 {
			return answer{}, apierrors.NewInvalid(res.hub.gvk.GroupKind(), obj.GetName(), errs)
		}
		req.Name = obj.GetName()
		if try == 1 {
			if err := s.validateAdmission(c, req); err != nil {
				return answer{}, err
			}
			if res.kind.Warnings != nil {
				c.warn(res.kind.Warnings(c.ctx, obj, nil)...)
			}
		}
		// As upstream, it is the store that refuses a revision: after
		// validation, and not in a dry run, which does not get there.
		if versioned && !c.dryRun {
			return answer{}, errVersionOnCreate
		}
		a, err := s.insert(c, res, obj)
		if generate && apierrors.IsAlreadyExists(err) {
			if try < maxNameTries {
				continue
			}
			err = apierrors.NewGenerateNameConflict(res.gr, obj.GetName(), 1)
		}
		return a, err
	}
}

// insert writes a valid new object.
func (s *Server) insert(c *call, res *resource, obj kinds.Object) (answer, error) {
	name := obj.GetName()
	key := res.key(obj.GetNamespace(), name)
	value, err := res.encodeStored(obj)
	if err != nil {
		return answer{}, err
	}
	if len(value) > maxObject {
		return answer{}, errTooLargeObject
	}
	e, err := s.written(res, obj, value)
	if err != nil {
		return answer{}, err
	}
	if c.dryRun {
		rec, _, err := s.store.Get(c.ctx, key)
		if err != nil {
			return answer{}, storeError(err)
		}
		if rec != nil {
			return answer{}, s.exists(res, name, rec)
		}
		return answer{code: http.StatusCreated, entry: e}, nil
	}
	_, err = s.store.Put(c.ctx, store.Put{Key: key, Fill: s.fill(res, value, e)})
	if conflict := (*store.Conflict)(nil); errors.As(err, &conflict) {
		return answer{}, s.exists(res, name, conflict.Current)
	}
	if err != nil {
		return answer{}, storeError(err)
	}
	return answer{code: http.StatusCreated, entry: e}, nil
}

// fill gives the object its resourceVersion as the store commits it. The
// decoded object is kept only where somebody is likely to read it again.
func (s *Server) fill(res *resource, value []byte, e *entry) func(int64) ([]byte, any) {
	return func(revision int64) ([]byte, any) {
		e.obj.SetResourceVersion(strconv.FormatInt(revision, 10))
		if !s.keep(res) {
			return value, nil
		}
		return value, e
	}
}

// keep tells whether new objects of a resource are likely to be read soon.
func (s *Server) keep(res *resource) bool {
	return res.readers.any() || res.isPods || res.isNamespaces || s.cfg.CheckImmutable
}

// exists is the answer to a create of what is there.
func (s *Server) exists(res *resource, name string, rec *store.Record) error {
	err := apierrors.NewAlreadyExists(res.gr, name)
	if rec == nil {
		return err
	}
	if old, _ := s.entryOf(res, rec); old != nil && old.obj.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", err.ErrStatus.Message)
	}
	return err
}
