package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
		Subresources: map[string]*kinds.Subresource{
			"status": split.Status(),
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
