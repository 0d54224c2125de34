package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiDriver() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csidrivers"}, Kind: "CSIDriver", Singular: "csidriver",
		StoragePrefix: "/registry/csidrivers/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSIDriver, storagev1.CSIDriverList](v1, defaultCSIDriver)},
		Validate:      strategy.Validate(validateCSIDriver),
		ValidateUpdate: strategy.ValidateUpdate(func(d, old *storagev1.CSIDriver) field.ErrorList {
			c := check.Errors{List: validateCSIDriverSpec(&d.Spec)}
			if !apiequality.Semantic.DeepEqual(d.Spec.AttachRequired, old.Spec.AttachRequired) {
				c.Immutable(field.NewPath("spec"), "attachedRequired", d.Spec.AttachRequired)
			}
			if !apiequality.Semantic.DeepEqual(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes) {
				c.Immutable(field.NewPath("spec"), "volumeLifecycleModes", d.Spec.VolumeLifecycleModes)
			}
			return c.List
		}),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("AttachRequired", "boolean", storagev1.CSIDriverSpec{}.SwaggerDoc()["attachRequired"], func(o *storagev1.CSIDriver) any { return o.Spec.AttachRequired == nil || *o.Spec.AttachRequired }),
			strategy.Column("PodInfoOnMount", "boolean", storagev1.CSIDriverSpec{}.SwaggerDoc()["podInfoOnMount"], func(o *storagev1.CSIDriver) any { return o.Spec.PodInfoOnMount != nil && *o.Spec.PodInfoOnMount }),
			strategy.Column("StorageCapacity", "boolean", storagev1.CSIDriverSpec{}.SwaggerDoc()["storageCapacity"], func(o *storagev1.CSIDriver) any { return o.Spec.StorageCapacity != nil && *o.Spec.StorageCapacity }),
			strategy.Column("TokenRequests", "string", storagev1.CSIDriverSpec{}.SwaggerDoc()["tokenRequests"], func(o *storagev1.CSIDriver) any { return audiences(o.Spec.TokenRequests) }),
			strategy.Column("RequiresRepublish", "boolean", storagev1.CSIDriverSpec{}.SwaggerDoc()["requiresRepublish"], func(o *storagev1.CSIDriver) any { return o.Spec.RequiresRepublish != nil && *o.Spec.RequiresRepublish }),
			strategy.Column("Modes", "string", storagev1.CSIDriverSpec{}.SwaggerDoc()["volumeLifecycleModes"], func(o *storagev1.CSIDriver) any { return modes(o.Spec.VolumeLifecycleModes) }),
			strategy.Age(),
		},
	}
}

func defaultCSIDriver(d *storagev1.CSIDriver) {
	for flag, value := range map[**bool]bool{
		&d.Spec.AttachRequired: true, &d.Spec.PodInfoOnMount: false, &d.Spec.StorageCapacity: false,
		&d.Spec.RequiresRepublish: false, &d.Spec.SELinuxMount: false,
	} {
		if *flag == nil {
			*flag = new(value)
		}
	}
	if d.Spec.FSGroupPolicy == nil {
		d.Spec.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func audiences(requests []storagev1.TokenRequest) string {
	var list []string
	for _, r := range requests {
		list = append(list, r.Audience)
	}
	if len(list) == 0 {
		return "<unset>"
	}
	return strings.Join(list, ",")
}

func modes(list []storagev1.VolumeLifecycleMode) string {
	var out []string
	for _, m := range list {
		out = append(out, string(m))
	}
	if len(out) == 0 {
		return "<none>"
	}
	return strings.Join(out, ",")
}

// Bounds of what a driver asks for, in seconds.
const (
	minTokenLife    = 10 * 60
	maxTokenLife    = 1 << 32
	minAskAllocated = 10
)

func validateCSIDriver(d *storagev1.CSIDriver) field.ErrorList {
	var c check.Errors
	core.ValidateDriver(&c, d.Name, field.NewPath("name"), "")
	c.Add(validateCSIDriverSpec(&d.Spec))
	return c.List
}

func validateCSIDriverSpec(spec *storagev1.CSIDriverSpec) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	for _, f := range [...]struct {
		name, detail string
		value        *bool
	}{
		{"attachedRequired", "", spec.AttachRequired}, {"podInfoOnMount", "", spec.PodInfoOnMount}, {"storageCapacity", "", spec.StorageCapacity},
		{"seLinuxMount", "seLinuxMount must be set", spec.SELinuxMount},
	} {
		if f.value == nil {
			c.Required(path, f.name, f.detail)
		}
	}
	if p := spec.FSGroupPolicy; p == nil {
		c.Required(path, "fsGroupPolicy", "")
	} else {
		check.Among(&c, path, "fsGroupPolicy", *p, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	var audiences check.Unique[string]
	for i, r := range spec.TokenRequests {
		p := path.Child("tokenRequests").Index(i)
		if audiences.Seen(r.Audience) {
			c.Duplicate(p, "audience", r.Audience)
		}
		switch life := r.ExpirationSeconds; {
		case life == nil:
		case *life < minTokenLife:
			c.Invalid(p, "expirationSeconds", *life, "may not specify a duration less than 10 minutes")
		case *life > maxTokenLife:
			c.Invalid(p, "expirationSeconds", *life, "may not specify a duration larger than 2^32 seconds")
		}
	}
	for _, mode := range spec.VolumeLifecycleModes {
		check.Among(&c, path, "volumeLifecycleModes", mode, storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent)
	}
	if n := spec.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minAskAllocated {
		c.Invalid(path, "nodeAllocatableUpdatePeriodSeconds", *n, "must be greater than or equal to 10 seconds")
	}
	if in := spec.ServiceAccountTokenInSecrets; in != nil && len(spec.TokenRequests) == 0 {
		c.Invalid(path, "serviceAccountTokenInSecrets", *in, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	return c.List
}
