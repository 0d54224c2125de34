package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func storageClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "storageclasses"}, Kind: "StorageClass", Singular: "storageclass",
		ShortNames:               []string{"sc"},
		StoragePrefix:            "/registry/storageclasses/",
		Versions:                 []kinds.Version{strategy.Version[storagev1.StorageClass, storagev1.StorageClassList](v1, defaultStorageClass)},
		AllowUnconditionalUpdate: true,
		Columns: []kinds.Column{
			className(),
			strategy.Column("Provisioner", "string", storagev1.StorageClass{}.SwaggerDoc()["provisioner"], func(o *storagev1.StorageClass) any { return o.Provisioner }),
			strategy.Column("ReclaimPolicy", "string", storagev1.StorageClass{}.SwaggerDoc()["reclaimPolicy"], func(o *storagev1.StorageClass) any {
				if o.ReclaimPolicy == nil {
					return "Delete"
				}
				return string(*o.ReclaimPolicy)
			}),
			strategy.Column("VolumeBindingMode", "string", storagev1.StorageClass{}.SwaggerDoc()["volumeBindingMode"], func(o *storagev1.StorageClass) any {
				if o.VolumeBindingMode == nil {
					return "Immediate"
				}
				return string(*o.VolumeBindingMode)
			}),
			strategy.Column("AllowVolumeExpansion", "string", storagev1.StorageClass{}.SwaggerDoc()["allowVolumeExpansion"], func(o *storagev1.StorageClass) any { return o.AllowVolumeExpansion != nil && *o.AllowVolumeExpansion }),
			strategy.Age(),
		},
	}
}

// isDefault marks the class that claims get which name none.
const isDefault = "storageclass.kubernetes.io/is-default-class"

func defaultStorageClass(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
	}
	if c.VolumeBindingMode == nil {
		c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
}

// className tells the default class by its name.
func className() kinds.Column {
	c := strategy.Name()
	c.Cell = func(obj kinds.Object) any {
		if a := obj.GetAnnotations(); a[isDefault] == "true" || a["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			return obj.GetName() + " (default)"
		}
		return obj.GetName()
	}
	return c
}
