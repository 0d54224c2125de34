package volumes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// Why volumes keep a pod away, as upstream has it.
const (
	reasonImmediate = "pod has unbound immediate PersistentVolumeClaims"
	reasonConflict  = "node(s) had volume node affinity conflict"
	reasonNoVolume  = "node(s) didn't find available persistent volumes to bind"
	reasonNoSpace   = "node(s) did not have enough free storage"
	reasonNoSuch    = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	reasonZone      = "node(s) had no available volume zone"
)

// Needs is what the claims of one pod come to at present: worked out once for
// an attempt to place it, then asked for each node.
type Needs struct {
	// Refusal keeps the pod from all nodes; "" when none does.
	Refusal string
	// On is what a change of may let the pod fit.
	On []string
	// Single are the claims that one pod only may use.
	Single []types.NamespacedName

	cat      *Catalog
	anyZone  bool
	lost     bool // a claim is bound to a volume that is not there
	bound    []*boundVolume
	unbound  []*unboundClaim // the smallest first
	attached []Attachment
}

// boundVolume is the volume of a claim that has one.
type boundVolume struct {
	affinity *nodeaffinity.NodeSelector // nil: any node
	zones    []zone
}

// unboundClaim is one that waits for its first consumer.
type unboundClaim struct {
	claim *corev1.PersistentVolumeClaim
	key   types.NamespacedName
	class *storagev1.StorageClass
	// node that was selected for its provisioning; "": none.
	node string
	// reserved are volumes that are set aside for it.
	reserved []*corev1.PersistentVolume
	// anywhere are the offers that are not bound to one node, once looked for.
	anywhere []offer
	looked   bool
}

// Of works out what a pod needs; nil: it has no claims. anyZone leaves out what
// labels of volumes say about zones.
func (cat *Catalog) Of(pod *corev1.Pod, anyZone bool) *Needs {
	n := &Needs{cat: cat, anyZone: anyZone}
	some := false
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		var refusal string
		switch {
		case v.PersistentVolumeClaim != nil:
			some = true
			refusal = n.add(pod, v.PersistentVolumeClaim.ClaimName, false)
		case v.Ephemeral != nil:
			some = true
			refusal = n.add(pod, volumes.EphemeralClaim(pod.Name, v.Name), true)
		}
		if n.Refusal == "" {
			n.Refusal = refusal
		}
	}
	if !some {
		return nil
	}
	slices.SortStableFunc(n.unbound, func(a, b *unboundClaim) int {
		x := volumes.Requested(a.claim)
		return x.Cmp(volumes.Requested(b.claim))
	})
	return n
}

// add looks at one claim and says why the pod can be nowhere for its sake.
func (n *Needs) add(pod *corev1.Pod, name string, ephemeral bool) string {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	n.on(OnClaim(key))
	claim := client.In[*corev1.PersistentVolumeClaim](n.cat.claims, key.Namespace, key.Name)
	switch {
	case claim == nil && ephemeral:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", name)
	case ephemeral && !volumes.Owned(claim, pod):
		return fmt.Sprintf("PVC %q was not created for pod %q (pod is not owner)", key, pod.Namespace+"/"+pod.Name)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	}
	if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		n.Single = append(n.Single, key)
		n.on(OnUsers(key))
	}
	if a := n.cat.attachment(key, claim); a != (Attachment{}) && !slices.Contains(n.attached, a) {
		n.attached = append(n.attached, a)
		n.on(onLimits)
	}
	if claim.Spec.VolumeName != "" && volumes.Completed(claim) {
		n.addBound(claim)
		return ""
	}
	className := volumes.ClaimClass(claim)
	class := client.In[*storagev1.StorageClass](n.cat.classes, "", className)
	if className != "" {
		n.on(onClass(className))
	}
	if claim.Spec.VolumeName != "" || !volumes.Delayed(class) {
		return reasonImmediate
	}
	u := &unboundClaim{claim: claim, key: key, class: class, node: claim.Annotations[volumes.SelectedNode]}
	if s := n.cat.selected[key]; s != nil {
		u.node = s.node
	}
	u.reserved = n.cat.reservedFor(claim, key)
	n.unbound = append(n.unbound, u)
	n.on(onVolumes(className))
	n.on(onCapacity(className))
	n.on(onDriver(class.Provisioner))
	return ""
}

func (n *Needs) on(what string) {
	if !slices.Contains(n.On, what) {
		n.On = append(n.On, what)
	}
}

func (n *Needs) addBound(claim *corev1.PersistentVolumeClaim) {
	n.on(onVolume(claim.Spec.VolumeName))
	v := client.In[*corev1.PersistentVolume](n.cat.volumes, "", claim.Spec.VolumeName)
	if v == nil {
		n.lost = true
		return
	}
	b := &boundVolume{affinity: affinityOf(v)}
	if !n.anyZone {
		b.zones = zonesOf(v)
	}
	if b.affinity != nil || len(b.zones) > 0 {
		n.bound = append(n.bound, b)
	}
}

// affinityOf is the nodes that reach a volume; nil: all. One that does not
// parse, which validation has refused, is reached by none.
func affinityOf(v *corev1.PersistentVolume) *nodeaffinity.NodeSelector {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
	if err != nil {
		selector, _ = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{})
	}
	return selector
}

func reaches(affinity *nodeaffinity.NodeSelector, node *corev1.Node) bool {
	return affinity == nil || affinity.Match(node)
}

// Refuses says why the pod cannot be on a node, or "". What it refuses, no
// other pod's leaving can mend.
func (n *Needs) Refuses(node *corev1.Node) string {
	if n == nil {
		return ""
	}
	if n.lost {
		return reasonNoSuch
	}
	for _, b := range n.bound {
		if !reaches(b.affinity, node) {
			return reasonConflict
		}
	}
	if len(n.unbound) > 0 {
		if _, reason := n.match(node); reason != "" {
			return reason
		}
	}
	for _, b := range n.bound {
		if !inZones(b.zones, node) {
			return reasonZone
		}
	}
	return ""
}

// zone is a topology label of a volume: a node must have one of the values.
type zone struct {
	keys   []string // of the node, the first that it has
	values []string
}

var zoneKeys = [][]string{
	{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone},
	{corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion},
}

func zonesOf(v *corev1.PersistentVolume) (zones []zone) {
	for _, keys := range zoneKeys {
		for _, key := range keys {
			if value, ok := v.Labels[key]; ok {
				// A volume that lies in several has them with this between.
				zones = append(zones, zone{keys: keys, values: strings.Split(value, "__")})
				break
			}
		}
	}
	return zones
}

// inZones: a node without any such label is as good as none, and takes all.
func inZones(zones []zone, node *corev1.Node) bool {
	if len(zones) == 0 || !zoned(node) {
		return true
	}
	for _, z := range zones {
		ok := false
		for _, key := range z.keys {
			if value, has := node.Labels[key]; has {
				ok = slices.Contains(z.values, value)
				break
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

func zoned(node *corev1.Node) bool {
	for _, keys := range zoneKeys {
		for _, key := range keys {
			if _, ok := node.Labels[key]; ok {
				return true
			}
		}
	}
	return false
}
