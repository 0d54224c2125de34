package volumes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Mode is a volume mode, which is a file system unless it says otherwise.
func Mode(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// Requested is the room that a claim asks for.
func Requested(c *corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

// Capacity is the room that a volume has.
func Capacity(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// Unfit says why a volume cannot be a claim's that names it; "" when it can.
func Unfit(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) string {
	have, want := Capacity(v), Requested(c)
	switch {
	case have.Cmp(want) < 0:
		return fmt.Sprintf("requested PV is too small: it has %s, the claim asks for %s", have.String(), want.String())
	case VolumeClass(v) != ClaimClass(c):
		return fmt.Sprintf("storageClassName does not match: the volume's is %q, the claim's %q", VolumeClass(v), ClaimClass(c))
	case attributes(v.Spec.VolumeAttributesClassName) != attributes(c.Spec.VolumeAttributesClassName):
		return fmt.Sprintf("volumeAttributesClassName does not match: the volume's is %q, the claim's %q", attributes(v.Spec.VolumeAttributesClassName), attributes(c.Spec.VolumeAttributesClassName))
	case Mode(v.Spec.VolumeMode) != Mode(c.Spec.VolumeMode):
		return fmt.Sprintf("incompatible volumeMode: the volume's is %s, the claim's %s", Mode(v.Spec.VolumeMode), Mode(c.Spec.VolumeMode))
	case !offers(v, c):
		return fmt.Sprintf("incompatible accessMode: the volume has %v, the claim asks for %v", v.Spec.AccessModes, c.Spec.AccessModes)
	}
	return ""
}

func attributes(class *string) string {
	if class == nil {
		return ""
	}
	return *class
}

// offers tells whether a volume has every access mode that a claim asks for.
func offers(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	for _, m := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			return false
		}
	}
	return true
}

// Selects tells whether a claim's selector lets a volume through. One that
// cannot be read lets nothing through.
func Selects(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	if c.Spec.Selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return err == nil && s.Matches(labels.Set(v.Labels))
}

// Free tells whether a volume may be given to any claim that it satisfies.
func Free(v *corev1.PersistentVolume) bool {
	return v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeAvailable
}

// OnNode tells whether a volume can be reached from a node.
func OnNode(v *corev1.PersistentVolume, node *corev1.Node) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	s, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
	return err == nil && s.Match(node)
}

// Smallest is the free volume that satisfies a claim with the least room to
// spare, of those the first by name; nil when there is none. node is where it
// must be reached from; nil: anywhere.
func Smallest(volumes []*corev1.PersistentVolume, c *corev1.PersistentVolumeClaim, node *corev1.Node) *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	var least resource.Quantity
	for _, v := range volumes {
		if !Free(v) || Unfit(v, c) != "" || !Selects(c, v) || node != nil && !OnNode(v, node) {
			continue
		}
		have := Capacity(v)
		if order := have.Cmp(least); best == nil || order < 0 || order == 0 && v.Name < best.Name {
			best, least = v, have
		}
	}
	return best
}
