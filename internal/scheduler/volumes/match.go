package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// picks are a volume, or none: to be provisioned, for each claim that has none.
type picks []*corev1.PersistentVolume

// match finds volumes on a node for all claims that have none, or says why
// there are none.
func (n *Needs) match(node *corev1.Node) (picks, string) {
	found := make(picks, len(n.unbound))
	taken := map[string]bool{}
	for i, u := range n.unbound {
		if u.node != "" && u.node != node.Name {
			return nil, reasonNoVolume // it is being made elsewhere
		}
		switch v, conflict := n.volumeFor(u, node, taken); {
		case conflict:
			return nil, reasonConflict
		case v != nil:
			found[i] = v
			taken[v.Name] = true
		default:
			if reason := n.cat.provisions(u, node); reason != "" {
				return nil, reason
			}
		}
	}
	return found, ""
}

// volumeFor finds the smallest volume on a node that will do for a claim.
// conflict: one is set aside for it that the node does not reach.
func (n *Needs) volumeFor(u *unboundClaim, node *corev1.Node, taken map[string]bool) (best *corev1.PersistentVolume, conflict bool) {
	for _, v := range u.reserved {
		if !n.cat.suits(v, u.claim) {
			continue
		}
		if !reaches(affinityOf(v), node) {
			return nil, true
		}
		return v, false
	}
	if u.node != "" {
		return nil, false // it is being provisioned
	}
	class := volumes.ClaimClass(u.claim)
	if !u.looked {
		u.anywhere, u.looked = n.offers(u.claim, place(class, "")), true
	}
	lists := [][]offer{u.anywhere}
	if host := node.Labels[corev1.LabelHostname]; host != "" {
		lists = append(lists, n.offers(u.claim, place(class, host)))
	}
	for _, list := range lists {
		for _, o := range list { // the smallest first
			if !taken[o.volume.Name] && reaches(o.affinity, node) {
				if best == nil || smaller(o.volume, best) {
					best = o.volume
				}
				break
			}
		}
	}
	return best, false
}

// offer is a volume that a claim could have.
type offer struct {
	volume   *corev1.PersistentVolume
	affinity *nodeaffinity.NodeSelector
}

// offers are the volumes of a place that nobody has and that would do for a
// claim, the smallest first.
func (n *Needs) offers(claim *corev1.PersistentVolumeClaim, place string) (offers []offer) {
	for _, v := range client.Indexed[*corev1.PersistentVolume](n.cat.volumes, byPlace, place) {
		if v.Status.Phase == corev1.VolumeAvailable && n.cat.held[v.Name] == nil && n.cat.suits(v, claim) && volumes.Selects(claim, v) {
			offers = append(offers, offer{v, affinityOf(v)})
		}
	}
	slices.SortFunc(offers, func(a, b offer) int {
		if smaller(a.volume, b.volume) {
			return -1
		}
		return 1
	})
	return offers
}

func smaller(a, b *corev1.PersistentVolume) bool {
	x, y := volumes.Capacity(a), volumes.Capacity(b)
	if c := x.Cmp(y); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// suits: size, modes and class are such as the claim asks for.
func (cat *Catalog) suits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return v.DeletionTimestamp == nil && volumes.Unfit(v, claim) == ""
}

// reservedFor are the volumes that are set aside for a claim: by their
// claimRef, or by a choice that is being written.
func (cat *Catalog) reservedFor(claim *corev1.PersistentVolumeClaim, key types.NamespacedName) (found []*corev1.PersistentVolume) {
	for _, v := range client.Indexed[*corev1.PersistentVolume](cat.volumes, byClaim, key.String()) {
		if uid := v.Spec.ClaimRef.UID; uid == "" || uid == claim.UID {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		for name, h := range cat.held {
			if h.claim != key {
				continue
			}
			if v := client.In[*corev1.PersistentVolume](cat.volumes, "", name); v != nil && v.Spec.ClaimRef == nil {
				found = append(found, v)
			}
		}
	}
	return found
}

// provisions says why a volume for a claim cannot be made on a node, or "".
func (cat *Catalog) provisions(u *unboundClaim, node *corev1.Node) string {
	if u.class.Provisioner == "" || u.class.Provisioner == volumes.NoProvisioner || !allowed(u.class.AllowedTopologies, node) {
		return reasonNoVolume
	}
	driver := client.In[*storagev1.CSIDriver](cat.drivers, "", u.class.Provisioner)
	if driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return "" // nobody tells how much room there is
	}
	want := volumes.Requested(u.claim)
	for _, c := range client.Indexed[*storagev1.CSIStorageCapacity](cat.capacities, byClass, u.class.Name) {
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		if limit == nil || limit.Cmp(want) < 0 || c.NodeTopology == nil {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology); err == nil && selector.Matches(labels.Set(node.Labels)) {
			return ""
		}
	}
	return reasonNoSpace
}

// allowed: one of the terms matches, with all its expressions.
func allowed(terms []corev1.TopologySelectorTerm, node *corev1.Node) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(t corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			value, ok := node.Labels[e.Key]
			return !ok || !slices.Contains(e.Values, value)
		})
	})
}
