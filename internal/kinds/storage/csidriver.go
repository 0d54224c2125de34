package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func csiDriver() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "csidrivers"}, Kind: "CSIDriver", Singular: "csidriver",
		StoragePrefix: "/registry/csidrivers/",
		Versions:      []kinds.Version{strategy.Version[storagev1.CSIDriver, storagev1.CSIDriverList](v1, defaultCSIDriver)},
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
