package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var bufferPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads the request's body. release gives the buffer back: nothing of
// it may be used afterwards.
func (x *exchange) readBody() (data []byte, release func(), err error) {
	if x.r.ContentLength > maxBody {
		return nil, nil, errBodyTooLarge()
	}
	buf := bufferPool.Get().(*bytes.Buffer)
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(x.r.Body, maxBody+1)); err != nil {
		bufferPool.Put(buf)
		if late := x.call.ctx.Err(); late != nil {
			return nil, nil, late
		}
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if buf.Len() > maxBody {
		bufferPool.Put(buf)
		return nil, nil, errBodyTooLarge()
	}
	return buf.Bytes(), func() {
		if buf.Cap() <= 64<<10 {
			bufferPool.Put(buf)
		}
	}, nil
}

func (x *exchange) negotiate() (err error) {
	x.pres, err = negotiate(x.r, false, x.call.sv == nil || x.call.sv.wire != nil)
	return err
}

func (x *exchange) serveGet() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	if rv := x.query.get("resourceVersion"); rv != "" && rv != "0" {
		n, err := parseRevision(rv)
		if err != nil {
			return err
		}
		if err := x.s.reach(x.call.ctx, n); err != nil {
			return err
		}
	}
	return x.answer(x.s.get(&x.call))
}

// get reads one object.
func (s *Server) get(c *call) (answer, error) {
	if c.sv.computed() {
		return s.getComputed(c)
	}
	rec, _, err := s.store.Get(c.ctx, c.sv.key(c.namespace, c.name))
	if err != nil {
		return answer{}, storeError(err)
	}
	if rec == nil {
		return answer{}, apierrors.NewNotFound(c.sv.gr, c.name)
	}
	e, err := s.entryOf(c.sv.resource, rec)
	return answer{code: http.StatusOK, entry: e}, err
}

func (x *exchange) serveCreate() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	if err := x.query.writeOptions(&x.call, "CreateOptions"); err != nil {
		return err
	}
	obj, err := x.decode()
	if err != nil {
		return err
	}
	x.attrs.Name = obj.GetName()
	return x.answer(x.s.create(&x.call, obj))
}

func (x *exchange) serveUpdate() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	if err := x.query.writeOptions(&x.call, "UpdateOptions"); err != nil {
		return err
	}
	obj, err := x.decode()
	if err != nil {
		return err
	}
	return x.answer(x.s.update(&x.call, obj))
}

// decode reads an object of the call's version.
func (x *exchange) decode() (kinds.Object, error) {
	sv := x.call.sv
	return x.decodeAs(sv.gvk.Kind, func(data []byte, m medium) (kinds.Object, []error, error) {
		return sv.decodeBody(data, m, x.call.fields)
	})
}

// decodeAs reads a body and deals with what strict reading finds.
func (x *exchange) decodeAs(kind string, decode func([]byte, medium) (kinds.Object, []error, error)) (kinds.Object, error) {
	m, err := bodyMedium(x.r)
	if err != nil {
		return nil, err
	}
	data, release, err := x.readBody()
	if err != nil {
		return nil, err
	}
	defer release()
	obj, strict, err := decode(data, m)
	if err != nil {
		return nil, err
	}
	if len(strict) == 0 {
		return obj, nil
	}
	switch x.call.fields {
	case fieldsStrict:
		gv := x.call.sv.gvk.Version
		return nil, apierrors.NewBadRequest(kind + " in version \"" + gv + "\" cannot be handled as a " + kind + ": " +
			runtime.NewStrictDecodingError(strict).Error())
	case fieldsWarn:
		for _, e := range strict {
			x.call.warn(e.Error())
		}
	}
	return obj, nil
}

func (x *exchange) servePatch() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	pt, data, release, err := x.readPatch()
	if err != nil {
		return err
	}
	defer release()
	return x.answer(x.s.patch(&x.call, pt, data))
}

func (x *exchange) readPatch() (types.PatchType, []byte, func(), error) {
	ct, _, _ := strings.Cut(x.r.Header.Get("Content-Type"), ";")
	pt := types.PatchType(strings.TrimSpace(ct))
	if err := checkPatchType(x.call.sv, pt); err != nil {
		return "", nil, nil, err
	}
	if err := x.query.patchOptions(&x.call, pt); err != nil {
		return "", nil, nil, err
	}
	data, release, err := x.readBody()
	if err == nil && !isApply(pt) && !json.Valid(data) {
		release()
		err = apierrors.NewBadRequest("invalid JSON patch")
	}
	return pt, data, release, err
}

func (x *exchange) serveDelete() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	opts, err := x.deleteOptions()
	if err != nil {
		return err
	}
	return x.answer(x.s.delete(&x.call, opts))
}

// deleteOptions come in the body or in the query.
func (x *exchange) deleteOptions() (*metav1.DeleteOptions, error) {
	if x.r.ContentLength != 0 {
		data, release, err := x.readBody()
		if err != nil {
			return nil, err
		}
		defer release()
		if len(data) > 0 {
			m, err := bodyMedium(x.r)
			if err != nil {
				return nil, err
			}
			opts, err := decodeDeleteOptions(data, m)
			if err != nil {
				return nil, err
			}
			for _, v := range x.query.values["dryRun"] {
				if v != "" && len(opts.DryRun) == 0 {
					opts.DryRun = append(opts.DryRun, v)
				}
			}
			return opts, nil
		}
	}
	return x.query.deleteOptions()
}

// decodeDeleteOptions takes the options in any API version, as Kubernetes
// registers them in all.
func decodeDeleteOptions(data []byte, m medium) (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	want := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	var err error
	switch m {
	case mediumProto:
		var raw []byte
		if _, raw, err = openEnvelope(data); err == nil {
			err = opts.Unmarshal(raw)
		}
	default:
		switch m {
		case mediumYAML:
			data, _, err = yamlToJSON(data, fieldsIgnore)
		case mediumCBOR:
			data, err = cborToJSON(data)
		}
		if err != nil {
			break
		}
		err = unmarshalJSON(data, opts)
		if opts.Kind != "" && opts.Kind != want.Kind && err == nil {
			err = errors.New("unexpected kind " + opts.Kind)
		}
	}
	if err != nil {
		return nil, unrecognized("DeleteOptions", err, data)
	}
	return opts, nil
}

func (x *exchange) serveDeleteCollection() error {
	if err := x.negotiate(); err != nil {
		return err
	}
	opts, err := x.query.listOptions()
	if err != nil {
		return err
	}
	del, err := x.deleteOptions()
	if err != nil {
		return err
	}
	p, err := x.s.deleteCollection(&x.call, del, opts)
	if err != nil {
		return err
	}
	return x.writeList(p)
}
