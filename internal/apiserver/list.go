package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/store"
)

// page is what a list found.
type page struct {
	records   []*store.Record
	revision  int64  // 0: of none
	next      string // continue token, "" at the end
	remaining *int64 // nil where Kubernetes leaves it out
}

// token is what a continue token holds, as Kubernetes writes it.
type token struct {
	APIVersion string `json:"v"`
	Revision   int64  `json:"rv"` // -1: inconsistent, from now
	Start      string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// tooLargeWait is how long a request waits for a revision in the future.
const tooLargeWait = 3 * time.Second

const expiredContinue = "The provided continue parameter is too old " +
	"to display a consistent list result. You can start a new list without " +
	"the continue parameter, or use the continue token in this response to " +
	"retrieve the remainder of the list. Continuing with the provided token " +
	"results in an inconsistent list - objects that were created, modified, " +
	"or deleted between the time the first chunk was returned and now " +
	"may show up in the list."

// list reads one page of the call's resource.
func (s *Server) list(c *call, opts *metav1.ListOptions) (*page, *filter, error) {
	f, err := newFilter(c.sv, c.namespace, opts.LabelSelector, opts.FieldSelector)
	if err != nil {
		return nil, nil, err
	}
	if err := validateListOptions(opts, false); err != nil {
		return nil, nil, err
	}
	if c.sv.computed() { // of no revision, and few
		return &page{records: s.compute(c.ctx, c.sv.resource, f)}, f, nil
	}
	r := store.Range{Prefix: f.prefix(c.sv.resource)}
	start, err := s.listFrom(c.ctx, opts, &r)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.pages(c, f, opts.Limit, r)
	switch {
	case errors.Is(err, store.ErrCompacted):
		if start == "" {
			return nil, nil, errListExpired()
		}
		return nil, nil, errContinueExpired(start)
	case errors.Is(err, store.ErrFuture):
		return nil, nil, errTooLargeRV(r.Revision, s.store.Revision())
	case err != nil:
		return nil, nil, storeError(err)
	}
	return p, f, nil
}

// listFrom sets the moment and the place that a list starts at.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
func (s *Server) listFrom(ctx context.Context, opts *metav1.ListOptions, r *store.Range) (start string, err error) {
	if opts.Continue != "" {
		t, err := decodeToken(opts.Continue)
		if err != nil {
			return "", apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
		}
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		r.After = r.Prefix + t.Start
		if t.Revision > 0 {
			r.Revision = t.Revision
		}
		return t.Start, nil
	}
	rv, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return "", err
	}
	switch {
	case rv == 0:
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact,
		opts.ResourceVersionMatch == "" && opts.Limit > 0:
		r.Revision = rv
	}
	if rv > 0 {
		return "", s.reach(ctx, rv)
	}
	return "", nil
}

// reach waits a little for a revision that the store has not reached.
func (s *Server) reach(ctx context.Context, rv int64) error {
	if s.store.Revision() >= rv {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tooLargeWait)
	defer cancel()
	s.hub.reach(ctx, rv)
	if have := s.store.Revision(); have < rv {
		return errTooLargeRV(rv, have)
	}
	return nil
}

// pages reads from the store until limit objects match.
func (s *Server) pages(c *call, f *filter, limit int64, r store.Range) (*page, error) {
	p := &page{}
	if !strings.HasSuffix(r.Prefix, "/") {
		return s.single(c, f, r)
	}
	r.Limit = int(limit)
	for {
		got, err := s.store.Range(c.ctx, r)
		if err != nil {
			return nil, err
		}
		p.revision = got.Revision
		r.Revision = got.Revision
		cut := got.Remaining > 0
		if f.plain() && f.name == "" {
			p.records = got.Records
		} else {
			for i, rec := range got.Records {
				ok, err := s.matches(c.sv.resource, f, rec)
				if err != nil {
					return nil, err
				}
				if !ok {
					continue
				}
				p.records = append(p.records, rec)
				if limit > 0 && int64(len(p.records)) == limit && i+1 < len(got.Records) {
					p.next = encodeToken(got.Revision, rec.Key[len(r.Prefix):])
					return p, nil
				}
			}
		}
		if !cut {
			return p, nil
		}
		last := got.Records[len(got.Records)-1].Key
		if int64(len(p.records)) >= limit {
			p.next = encodeToken(got.Revision, last[len(r.Prefix):])
			if f.plain() && f.name == "" {
				left := int64(got.Remaining)
				p.remaining = &left
			}
			return p, nil
		}
		r.After = last
	}
}

// single reads the one object whose key the filter pins down.
func (s *Server) single(c *call, f *filter, r store.Range) (*page, error) {
	r.Limit = 1 // keys that begin with this one come behind it
	got, err := s.store.Range(c.ctx, r)
	if err != nil {
		return nil, err
	}
	p := &page{revision: got.Revision}
	if len(got.Records) == 1 && got.Records[0].Key == r.Prefix {
		ok, err := s.matches(c.sv.resource, f, got.Records[0])
		if err != nil {
			return nil, err
		}
		if ok {
			p.records = got.Records
		}
	}
	return p, nil
}

// matches tells whether a record that lies in the range is one that the filter
// shows.
func (s *Server) matches(res *resource, f *filter, rec *store.Record) (bool, error) {
	if f.name != "" || f.namespace != "" {
		if ns, name := res.names(rec.Key); !f.matchesKey(ns, name) {
			return false, nil
		}
	}
	if f.plain() {
		return true, nil
	}
	e, err := s.entryOf(res, rec)
	if err != nil {
		return false, err
	}
	return f.matchesObject(res, e.obj), nil
}

func encodeToken(revision int64, start string) string {
	data, _ := json.Marshal(token{APIVersion: tokenVersion, Revision: revision, Start: start})
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeToken(text string) (token, error) {
	var t token
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, err
	}
	switch {
	case t.APIVersion != tokenVersion:
		return t, errors.New("server does not recognize this encoded version " + t.APIVersion)
	case t.Revision == 0:
		return t, errors.New("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return t, errors.New("encoded start key empty (version meta.k8s.io/v1)")
	case path.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		return t, errors.New(t.Start) // a path that leads elsewhere
	}
	return t, nil
}

// errContinueExpired holds a token with which a client goes on, at the price
// of consistency.
func errContinueExpired(start string) error {
	err := apierrors.NewResourceExpired(expiredContinue)
	err.ErrStatus.ListMeta.Continue = encodeToken(-1, start)
	return err
}

var listOptionsKind = schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}

func validateListOptions(opts *metav1.ListOptions, watch bool) error {
	if opts.ResourceVersionMatch == "" && opts.SendInitialEvents == nil {
		return nil
	}
	in := internalversion.ListOptions{
		Watch: watch, ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents,
	}
	if errs := validation.ValidateListOptions(&in, true); len(errs) > 0 {
		return apierrors.NewInvalid(listOptionsKind, "", errs)
	}
	return nil
}
