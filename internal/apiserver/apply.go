package apiserver

import (
	"bytes"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// apply merges what a manager wants of an object into it, and creates it if it
// is not there.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/
func (s *Server) apply(c *call, data []byte, pt types.PatchType) (answer, error) {
	if _, err := c.applied(data, pt, false); err != nil {
		return answer{}, err
	}
	ch := c.sv.mainChange()
	if c.sub != "" {
		ch = c.sv.viewChange(c.sub, c.sv.kind.Subresources[c.sub])
	}
	ch.mayCreate = c.sub == ""
	warned := len(c.warnings)
	ch.make = func(old kinds.Object) (kinds.Object, error) {
		c.warnings = c.warnings[:warned] // those of a try that lost
		if old == nil {
			if err := s.authorizeCreate(c); err != nil {
				return nil, err
			}
		}
		obj, err := s.applyOnto(c, s.fieldsOf(c.sv.resource), old, data, pt, c.writes())
		if err != nil {
			return nil, err
		}
		if old == nil && obj.GetUID() != "" {
			return nil, apierrors.NewConflict(c.sv.gr, c.name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
		}
		c.tracked = true
		return obj, c.checkNames(obj)
	}
	return s.change(c, ch)
}

// applyOnto merges data into old, and says what is strictly wrong with data.
func (s *Server) applyOnto(c *call, fields *apply.Kind, old kinds.Object, data []byte, pt types.PatchType, by apply.Request) (kinds.Object, error) {
	config, err := c.applied(data, pt, true)
	if err != nil {
		return nil, err
	}
	return fields.Apply(old, config, c.force, by)
}

// applied reads the body of an apply. strict deals with duplicate fields.
func (c *call) applied(data []byte, pt types.PatchType, strict bool) (map[string]any, error) {
	config := map[string]any{}
	if pt == types.ApplyCBORPatchType {
		if err := direct.Unmarshal(data, &config); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return config, nil
	}
	if json := bytes.TrimLeft(data, " \t\r\n"); len(json) > 0 && json[0] == '{' {
		// Most clients send JSON, which is read ten times faster as such.
		doubled, err := strictJSON(json, &config)
		if err == nil && (len(doubled) == 0 || c.fields == fieldsIgnore) {
			return config, nil
		}
		clear(config)
	}
	if _, err := yaml.ToJSON(data); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if !strict || c.fields == fieldsIgnore {
		return config, nil
	}
	if err := yaml.UnmarshalStrict(data, &map[string]any{}); err != nil {
		if c.fields == fieldsStrict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		c.warn(err.Error())
	}
	return config, nil
}

// authorizeCreate asks whether the one who applies may also create.
func (s *Server) authorizeCreate(c *call) error {
	a := c.attributes()
	a.Verb = "create"
	return s.authorize(c.ctx, a)
}
