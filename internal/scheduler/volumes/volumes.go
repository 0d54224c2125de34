// Package volumes tells on which nodes a pod may be for the sake of its
// volumes, chooses volumes for claims that wait for their first consumer, and
// writes the choice.
//
//	            Of(pod)                Refuses(node)             Choose(node)
//	pod, views ---------> Needs, once ---------------> per node -------------> Choice
//	                      an attempt                                             |
//	                                Hold: others do not take it, Write, Settled: <
//	                                its claims are bound, or it came to nothing
//
// These are upstream's VolumeBinding, VolumeZone and what NodeVolumeLimits and
// VolumeRestrictions need to know of a claim.
//
// https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
// https://kubernetes.io/docs/concepts/storage/storage-capacity/
// https://kubernetes.io/docs/concepts/storage/storage-limits/
//
// Cost: volumes are found by class and, where they lie on one node, by that
// node; nothing looks at all of them.
//
// Concurrency: a Catalog belongs to one goroutine, but for Write, which reads
// only what it is given.
//
// Failure: a choice is not written at once as a whole. What was written of it
// before a crash or a refusal is found by the next attempt, which goes on from
// there: a volume that is set aside for a claim is taken for it, and a claim
// for which a node was selected goes there, until its provisioner takes that
// back.
//
// Testing: stories and convergence in package scheduler; disks by a table here.
package volumes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

const (
	byPlace = "class and node" // of volumes nobody has
	byClaim = "claim"          // of volumes that somebody has
	byClass = "class"          // of capacities
)

// Catalog is what there is of volumes.
type Catalog struct {
	claims, volumes   client.View
	classes, csiNodes client.View
	drivers           client.View
	capacities        client.View

	held     map[string]*hold // by the volume's name
	selected map[types.NamespacedName]*selection
	// attached caches what a claim is to its driver; what changes is dropped.
	attached map[types.NamespacedName]Attachment
}

// hold is a volume that is set aside for a claim while choices are in flight.
type hold struct {
	claim types.NamespacedName
	users int
}

// selection is a node at which a claim is to be provisioned.
type selection struct {
	node  string
	users int
}

// New makes a catalog over the views of a client.
func New(c client.Interface) *Catalog {
	all := client.ViewOptions{}
	cat := &Catalog{
		claims: c.View(client.PersistentVolumeClaims, all), volumes: c.View(client.PersistentVolumes, all),
		classes: c.View(client.StorageClasses, all), csiNodes: c.View(client.CSINodes, all),
		drivers: c.View(client.CSIDrivers, all), capacities: c.View(client.CSIStorageCapacities, all),
		held: map[string]*hold{}, selected: map[types.NamespacedName]*selection{}, attached: map[types.NamespacedName]Attachment{},
	}
	cat.volumes.Index(byPlace, func(obj client.Object) []string {
		v, ok := obj.(*corev1.PersistentVolume)
		if !ok || v.Spec.ClaimRef != nil {
			return nil
		}
		return []string{place(volumes.VolumeClass(v), hostOf(v))}
	})
	cat.volumes.Index(byClaim, func(obj client.Object) []string {
		v, ok := obj.(*corev1.PersistentVolume)
		if !ok || v.Spec.ClaimRef == nil {
			return nil
		}
		return []string{claimOf(v).String()}
	})
	cat.capacities.Index(byClass, func(obj client.Object) []string {
		if c, ok := obj.(*storagev1.CSIStorageCapacity); ok {
			return []string{c.StorageClassName}
		}
		return nil
	})
	return cat
}

// Views are what a catalog reads. A change of any may let a pod fit; Changed
// tells which.
func (cat *Catalog) Views() []client.View {
	return []client.View{cat.claims, cat.volumes, cat.classes, cat.csiNodes, cat.drivers, cat.capacities}
}

// Changed names what a change of an object may help, by the names that
// Needs.On has, and the claims that it is about. The owner of the catalog calls
// it for each change of a view.
func (cat *Catalog) Changed(old, new client.Object) (helps []string, claims []types.NamespacedName) {
	for _, obj := range []client.Object{old, new} {
		switch o := obj.(type) {
		case *corev1.PersistentVolumeClaim:
			claims = append(claims, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		case *corev1.PersistentVolume:
			helps = append(helps, onVolumes(volumes.VolumeClass(o)), onVolume(o.Name))
			if o.Spec.ClaimRef != nil {
				claims = append(claims, claimOf(o))
			}
		case *storagev1.StorageClass:
			helps = append(helps, onClass(o.Name))
			clear(cat.attached) // of claims that have no volume the class tells
		case *storagev1.CSINode:
			if new == nil || old == nil || !sameLimits(old.(*storagev1.CSINode), new.(*storagev1.CSINode)) {
				helps = append(helps, onLimits)
			}
		case *storagev1.CSIDriver:
			helps = append(helps, onDriver(o.Name))
		case *storagev1.CSIStorageCapacity:
			helps = append(helps, onCapacity(o.StorageClassName))
		}
	}
	for _, key := range claims {
		helps = append(helps, OnClaim(key))
		delete(cat.attached, key)
	}
	slices.Sort(helps)
	slices.SortFunc(claims, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(helps), slices.Compact(claims)
}

// What a pod can wait for, as Needs.On names it. These are read by people.

// OnClaim is that a claim changes.
func OnClaim(key types.NamespacedName) string { return "PersistentVolumeClaim " + key.String() }

// OnUsers is that a pod goes that uses a claim.
func OnUsers(key types.NamespacedName) string { return "the pod that has " + OnClaim(key) }

const onLimits = "the limits of a CSINode"

func onClass(name string) string    { return "StorageClass " + name }
func onVolume(name string) string   { return "PersistentVolume " + name }
func onVolumes(class string) string { return "a PersistentVolume of StorageClass " + class }
func onDriver(name string) string   { return "CSIDriver " + name }
func onCapacity(class string) string {
	return "a CSIStorageCapacity of StorageClass " + class
}

func claimOf(v *corev1.PersistentVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}
}

func place(class, host string) string { return class + "\x00" + host }

// hostOf is the value of the host name label that a volume's affinity asks for,
// where it asks for one alone, as those of local volumes do; else "".
func hostOf(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil || len(v.Spec.NodeAffinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

func sameLimits(a, b *storagev1.CSINode) bool {
	return slices.EqualFunc(a.Spec.Drivers, b.Spec.Drivers, func(x, y storagev1.CSINodeDriver) bool {
		return x.Name == y.Name && limitOf(&x) == limitOf(&y)
	})
}

// limitOf is how many volumes of a driver a node takes; -1: any number.
func limitOf(d *storagev1.CSINodeDriver) int {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return int(*d.Allocatable.Count)
}

// ClaimsOf are the names of the claims that a pod's volumes are, its own
// (ephemeral) ones among them.
func ClaimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if name := volumes.ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}
