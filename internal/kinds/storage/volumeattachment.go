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

func volumeAttachment() *kinds.Kind {
	split := strategy.Of[storagev1.VolumeAttachment]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "volumeattachments"}, Kind: "VolumeAttachment", Singular: "volumeattachment",
		StoragePrefix: "/registry/volumeattachments/",
		Versions:      []kinds.Version{strategy.Version[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validateAttachment),
		ValidateUpdate: strategy.ValidateUpdate(func(a, old *storagev1.VolumeAttachment) field.ErrorList {
			c := check.Errors{List: validateAttachment(a)}
			if !apiequality.Semantic.DeepEqual(a.Spec, old.Spec) {
				c.Immutable(field.NewPath("spec"), "", a.Spec)
			}
			return c.List
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": {Verbs: strategy.View(), PrepareUpdate: split.PrepareStatus, ValidateUpdate: strategy.ValidateUpdate(validateAttachmentStatus)},
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Attacher", "string", storagev1.VolumeAttachmentSpec{}.SwaggerDoc()["attacher"], func(o *storagev1.VolumeAttachment) any { return o.Spec.Attacher }),
			strategy.Column("PV", "string", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"], func(o *storagev1.VolumeAttachment) any {
				if o.Spec.Source.PersistentVolumeName == nil {
					return ""
				}
				return *o.Spec.Source.PersistentVolumeName
			}),
			strategy.Column("Node", "string", storagev1.VolumeAttachmentSpec{}.SwaggerDoc()["nodeName"], func(o *storagev1.VolumeAttachment) any { return o.Spec.NodeName }),
			strategy.Column("Attached", "boolean", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"], func(o *storagev1.VolumeAttachment) any { return o.Status.Attached }),
			strategy.Age(),
		},
	}
}

func validateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	core.ValidateDriver(&c, a.Spec.Attacher, path, "attacher")
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	source := path.Child("source")
	switch name, spec := a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec; {
	case name == nil && spec == nil:
		c.Required(source, "", one)
	case name != nil && spec != nil:
		c.Forbidden(source, "", one)
	case name != nil && *name == "":
		c.Required(source, "persistentVolumeName", "must specify non empty persistentVolumeName")
	case name != nil:
		c.Subdomain(source, "persistentVolumeName", *name)
	default:
		core.ValidatePersistentVolumeSpec(&c, spec, "", true, source.Child("inlineVolumeSpec"))
	}
	c.Subdomain(path, "nodeName", a.Spec.NodeName)
	return c.List
}

const maxMessage = 1024

func validateAttachmentStatus(a, _ *storagev1.VolumeAttachment) field.ErrorList {
	var c check.Errors
	for _, e := range [...]struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", a.Status.AttachError}, {"detachError", a.Status.DetachError}} {
		if e.err != nil && len(e.err.Message) > maxMessage {
			c.TooLong(field.NewPath("status", e.name), "message", maxMessage)
		}
	}
	return c.List
}
