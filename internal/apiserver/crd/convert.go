package crd

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// converter turns an object of one version into one of another, other than by
// calling it another name. nil: the name is all that differs.
type converter interface {
	convert(o *Object, to *version) (*Object, error)
}

// convert makes an object of version to of one of any other version. The
// result may share what lies in obj.
func (d *definition) convert(obj kinds.Object, to *version) (kinds.Object, error) {
	o := obj.(*Object)
	if o.version == to {
		return o, nil
	}
	var out *Object
	if d.converter != nil {
		var err error
		if out, err = d.converter.convert(o, to); err != nil {
			return nil, err
		}
	} else {
		out = o.DeepCopyObject().(*Object)
	}
	out.version = to
	out.SetGroupVersionKind(to.gvk)
	if _, err := to.prune(out, false); err != nil {
		return nil, err
	}
	to.fill(out)
	return out, nil
}

// decode reads what is stored, in whatever version it was stored.
func (d *definition) decode(data []byte) (kinds.Object, error) {
	from := d.hub
	if !bytes.HasPrefix(data, d.head) { // else it is as we write it now
		var head struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return nil, err
		}
		if from = d.versions[head.APIVersion]; from == nil {
			return nil, fmt.Errorf("stored as %s, which the definition does not have", head.APIVersion)
		}
	}
	o, err := from.load(data)
	if err != nil || from == d.hub {
		return o, err
	}
	return d.convert(o, d.hub)
}
