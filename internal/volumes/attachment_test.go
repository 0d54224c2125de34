package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestAttachmentNames: what others know an attachment by, and read on a Node.
func TestAttachmentNames(t *testing.T) {
	// printf h1disk.example.comn1 | sha256sum
	if got, want := AttachmentName("disk.example.com", "h1", "n1"), "csi-0f30d008e2c35a9079ad5b387acb76fc4f32c1715f29f3d316190f5a1976198c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	name := UniqueName("disk.example.com", "a^b")
	if name != "kubernetes.io/csi/disk.example.com^a^b" {
		t.Errorf("got %s", name)
	}
	if d, h, ok := OfCSI(name); d != "disk.example.com" || h != "a^b" || !ok {
		t.Errorf("got %s, %s, %t", d, h, ok)
	}
	for _, other := range []corev1.UniqueVolumeName{"kubernetes.io/nfs/x^y", "kubernetes.io/csi/none"} {
		if _, _, ok := OfCSI(other); ok {
			t.Errorf("%s is taken for a CSI driver's", other)
		}
	}
}

func TestAttachRequired(t *testing.T) {
	for want, drivers := range map[bool][]*storagev1.CSIDriver{
		true:  {nil, {}, {Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}},
		false: {{Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}},
	} {
		for _, d := range drivers {
			if got := AttachRequired(d); got != want {
				t.Errorf("%+v: got %t", d, got)
			}
		}
	}
}
