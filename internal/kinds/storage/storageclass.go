package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func storageClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "storageclasses"}, Kind: "StorageClass", Singular: "storageclass",
		ShortNames:               []string{"sc"},
		StoragePrefix:            "/registry/storageclasses/",
		Versions:                 []kinds.Version{strategy.Version[storagev1.StorageClass, storagev1.StorageClassList](v1, defaultStorageClass)},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateStorageClass),
		ValidateUpdate:           strategy.ValidateUpdate(validateStorageClassUpdate),
		Warnings: strategy.Warnings(func(s, _ *storagev1.StorageClass) (out []string) {
			for i, term := range s.AllowedTopologies {
				for j, e := range term.MatchLabelExpressions {
					if instead, ok := betaTopology[e.Key]; ok {
						out = append(out, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: deprecated since v1.17; use %q instead", i, j, instead))
					}
				}
			}
			return out
		}),
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

// betaTopology are labels of nodes that got new names.
var betaTopology = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

func validateStorageClass(s *storagev1.StorageClass) field.ErrorList {
	var c check.Errors
	validateProvisioner(&c, field.NewPath("provisioner"), s.Provisioner)
	validateParameters(&c, s.Parameters, true)
	if p := s.ReclaimPolicy; p != nil {
		check.OneOf(&c, field.NewPath("reclaimPolicy"), "", *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if m := s.VolumeBindingMode; m == nil {
		c.Required(field.NewPath("volumeBindingMode"), "", "")
	} else {
		check.Among(&c, field.NewPath("volumeBindingMode"), "", *m, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	validateTopologies(&c, s.AllowedTopologies, field.NewPath("allowedTopologies"))
	return c.List
}

func validateStorageClassUpdate(s, old *storagev1.StorageClass) field.ErrorList {
	c := check.Errors{List: validateStorageClass(s)}
	for _, f := range [...]struct {
		name     string
		now, was any
	}{
		{"parameters", s.Parameters, old.Parameters}, {"provisioner", s.Provisioner, old.Provisioner}, {"reclaimPolicy", s.ReclaimPolicy, old.ReclaimPolicy},
	} {
		if !apiequality.Semantic.DeepEqual(f.now, f.was) {
			c.Forbidden(field.NewPath(f.name), "", "updates to "+f.name+" are forbidden.")
		}
	}
	if !apiequality.Semantic.DeepEqual(s.VolumeBindingMode, old.VolumeBindingMode) {
		c.Immutable(field.NewPath("volumeBindingMode"), "", s.VolumeBindingMode)
	}
	return c.List
}

func validateTopologies(c *check.Errors, terms []corev1.TopologySelectorTerm, path *field.Path) {
	for i := range terms {
		p := path.Index(i)
		var keys check.Unique[string]
		for j, e := range terms[i].MatchLabelExpressions {
			p := p.Child("matchLabelExpressions").Index(j)
			if len(e.Values) == 0 {
				c.Required(p, "values", "")
			}
			var values check.Unique[string]
			for k, value := range e.Values {
				if values.Seen(value) {
					c.Duplicate(p.Child("values").Index(k), "", value)
				}
			}
			c.Add(metavalidation.ValidateLabelName(e.Key, p.Child("key")))
			if keys.Seen(e.Key) {
				c.Duplicate(p, "key", e.Key)
			}
		}
		for j := range i {
			if apiequality.Semantic.DeepEqual(terms[j], terms[i]) {
				c.Duplicate(p.Child("matchLabelExpressions"), "", "")
				break
			}
		}
	}
}
