package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// Attachment is a volume of a CSI driver, as a node counts it.
type Attachment struct {
	Driver string
	// Handle of the volume; of one that is not made yet the claim's name.
	Handle string
}

const reasonLimit = "node(s) exceed max volume count"

// attachment of a claim; zero when no CSI driver has a part in it.
func (cat *Catalog) attachment(key types.NamespacedName, claim *corev1.PersistentVolumeClaim) Attachment {
	if a, ok := cat.attached[key]; ok {
		return a
	}
	a := cat.attachmentOf(key, claim)
	cat.attached[key] = a
	return a
}

func (cat *Catalog) attachmentOf(key types.NamespacedName, claim *corev1.PersistentVolumeClaim) Attachment {
	if claim == nil {
		return Attachment{}
	}
	if claim.Spec.VolumeName != "" {
		if v := client.In[*corev1.PersistentVolume](cat.volumes, "", claim.Spec.VolumeName); v != nil {
			if csi := v.Spec.CSI; csi != nil {
				return Attachment{Driver: csi.Driver, Handle: csi.VolumeHandle}
			}
			return Attachment{}
		}
	}
	class := client.In[*storagev1.StorageClass](cat.classes, "", volumes.ClaimClass(claim))
	if class == nil || class.Provisioner == volumes.NoProvisioner {
		return Attachment{}
	}
	return Attachment{Driver: class.Provisioner, Handle: "claim " + key.String()}
}

// OverLimit says why a node cannot attach the pod's volumes beside those of
// the claims that its pods use, or "".
func (n *Needs) OverLimit(node string, used map[types.NamespacedName]int) string {
	if n == nil || len(n.attached) == 0 {
		return ""
	}
	csi := client.In[*storagev1.CSINode](n.cat.csiNodes, "", node)
	if csi == nil {
		return ""
	}
	for i := range csi.Spec.Drivers {
		d := &csi.Spec.Drivers[i]
		limit := limitOf(d)
		if limit < 0 {
			continue
		}
		want := map[string]bool{}
		for _, a := range n.attached {
			if a.Driver == d.Name {
				want[a.Handle] = true
			}
		}
		if len(want) == 0 {
			continue
		}
		more := len(want)
		for key := range used {
			if a, ok := n.cat.attached[key]; !ok {
				a = n.cat.attachment(key, client.In[*corev1.PersistentVolumeClaim](n.cat.claims, key.Namespace, key.Name))
				count(a, d.Name, want, &more)
			} else {
				count(a, d.Name, want, &more)
			}
		}
		if len(want) > limit && more > 0 {
			return reasonLimit
		}
	}
	return ""
}

// count adds what a node has of a driver to want; more is how many of those that
// are wanted it has not.
func count(a Attachment, driver string, want map[string]bool, more *int) {
	if a.Driver != driver {
		return
	}
	if fresh, ok := want[a.Handle]; ok && fresh {
		*more--
	}
	want[a.Handle] = false
}
