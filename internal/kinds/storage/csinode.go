package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiNode() *kinds.Kind {
	split := strategy.Of[storagev1.CSINode]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csinodes"}, Kind: "CSINode", Singular: "csinode",
		StoragePrefix: "/registry/csinodes/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSINode, storagev1.CSINodeList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validateCSINode),
		ValidateUpdate: strategy.ValidateUpdate(func(n, old *storagev1.CSINode) field.ErrorList {
			c := check.Errors{List: validateCSINode(n)}
			driversKept(&c, n, old)
			return c.List
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Drivers", "integer", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"], func(o *storagev1.CSINode) any { return int64(len(o.Spec.Drivers)) }),
			strategy.Age(),
		},
	}
}

const maxNodeID = 256

func validateCSINode(n *storagev1.CSINode) field.ErrorList {
	var c check.Errors
	var names check.Unique[string]
	for i := range n.Spec.Drivers {
		d, p := &n.Spec.Drivers[i], field.NewPath("spec", "drivers").Index(i)
		core.ValidateDriver(&c, d.Name, p, "name")
		if names.Seen(d.Name) {
			c.Duplicate(p, "name", d.Name)
		}
		switch {
		case d.NodeID == "":
			c.Required(p, "nodeID", d.NodeID)
		case len(d.NodeID) > maxNodeID:
			c.Invalid(p, "nodeID", d.NodeID, "must be 256 characters or less")
		}
		if a := d.Allocatable; a != nil && a.Count != nil {
			c.NonNegative(p.Child("allocatable"), "count", int64(*a.Count))
		}
		var keys check.Unique[string]
		for _, key := range d.TopologyKeys {
			if keys.Seen(key) {
				c.Duplicate(p, "topologyKeys", key)
			}
			c.Qualified(p, "topologyKeys", key)
		}
	}
	return c.List
}

// driversKept: a driver is taken away and registered again, never changed, but
// for how much it takes.
func driversKept(c *check.Errors, n, old *storagev1.CSINode) {
	for i := range n.Spec.Drivers {
		for j := range old.Spec.Drivers {
			now, was := n.Spec.Drivers[i], old.Spec.Drivers[j]
			if now.Name != was.Name {
				continue
			}
			was.Allocatable = now.Allocatable
			if !apiequality.Semantic.DeepEqual(now, was) {
				c.Immutable(field.NewPath("spec", "drivers"), "", n.Spec.Drivers[i])
			}
		}
	}
}
