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
		Columns: strategy.NameAge(),
	}
}
