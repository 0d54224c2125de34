package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// Choice is which volumes a pod's claims are to have on a node.
type Choice struct {
	node   string
	claims []chosen
}

// chosen is a claim with its volume; nil: it is to be provisioned.
type chosen struct {
	key    types.NamespacedName
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// Choose chooses volumes on a node that is not refused; nil when every claim
// has one.
func (n *Needs) Choose(node *corev1.Node) *Choice {
	if n == nil || len(n.unbound) == 0 {
		return nil
	}
	found, reason := n.match(node)
	if reason != "" {
		return nil
	}
	c := &Choice{node: node.Name}
	for i, u := range n.unbound {
		c.claims = append(c.claims, chosen{key: u.key, claim: u.claim, volume: found[i]})
	}
	return c
}

// Claims are the claims that the choice is for.
func (c *Choice) Claims() (keys []types.NamespacedName) {
	for i := range c.claims {
		keys = append(keys, c.claims[i].key)
	}
	return keys
}

// Hold keeps what was chosen from others, until Release.
func (cat *Catalog) Hold(c *Choice) {
	for i := range c.claims {
		x := &c.claims[i]
		if x.volume == nil {
			if cat.selected[x.key] == nil {
				cat.selected[x.key] = &selection{node: c.node}
			}
			cat.selected[x.key].users++
			continue
		}
		if cat.held[x.volume.Name] == nil {
			cat.held[x.volume.Name] = &hold{claim: x.key}
		}
		cat.held[x.volume.Name].users++
	}
}

// Release ends a Hold.
func (cat *Catalog) Release(c *Choice) {
	for i := range c.claims {
		x := &c.claims[i]
		if x.volume == nil {
			if s := cat.selected[x.key]; s != nil {
				if s.users--; s.users == 0 {
					delete(cat.selected, x.key)
				}
			}
			continue
		}
		if h := cat.held[x.volume.Name]; h != nil {
			if h.users--; h.users == 0 {
				delete(cat.held, x.volume.Name)
			}
		}
	}
}

// Write writes a choice: a volume gets the claim's reference, for the binder
// to bind it; a claim gets the node's name, for its provisioner to make a
// volume there. It returns once the views show it. It may be called from any
// goroutine.
func (cat *Catalog) Write(ctx context.Context, c client.Interface, choice *Choice) error {
	for i := range choice.claims {
		x := &choice.claims[i]
		var err error
		if x.volume != nil {
			err = cat.reserve(ctx, c, x)
		} else {
			err = cat.selectNode(ctx, c, x, choice.node)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (cat *Catalog) reserve(ctx context.Context, c client.Interface, x *chosen) error {
	if ref := x.volume.Spec.ClaimRef; ref != nil && ref.UID == x.claim.UID {
		return nil // it was, before
	}
	v := volumes.GiveTo(x.volume, x.claim)
	got, err := client.Update(ctx, c, client.PersistentVolumes, v)
	if err != nil {
		return fmt.Errorf("set PersistentVolume %s aside for claim %s: %w", v.Name, x.key, err)
	}
	return cat.volumes.WaitFor(ctx, got.ResourceVersion)
}

func (cat *Catalog) selectNode(ctx context.Context, c client.Interface, x *chosen, node string) error {
	if x.claim.Annotations[volumes.SelectedNode] == node {
		return nil
	}
	claim := x.claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumes.SelectedNode, node)
	got, err := client.Update(ctx, c, client.PersistentVolumeClaims, claim)
	if err != nil {
		return fmt.Errorf("select node %s for claim %s: %w", node, x.key, err)
	}
	return cat.claims.WaitFor(ctx, got.ResourceVersion)
}

// Settled tells whether every claim of a written choice is bound to a volume
// that the node reaches. why: it came to nothing, or what is waited for.
func (cat *Catalog) Settled(choice *Choice, node *corev1.Node) (done, failed bool, why string) {
	done = true
	for i := range choice.claims {
		x := &choice.claims[i]
		claim := client.In[*corev1.PersistentVolumeClaim](cat.claims, x.key.Namespace, x.key.Name)
		if claim == nil || claim.UID != x.claim.UID || claim.DeletionTimestamp != nil {
			return false, true, fmt.Sprintf("persistentvolumeclaim %q is gone", x.key.Name)
		}
		if claim.Spec.VolumeName != "" && volumes.Completed(claim) {
			v := client.In[*corev1.PersistentVolume](cat.volumes, "", claim.Spec.VolumeName)
			if v != nil && !reaches(affinityOf(v), node) {
				return false, true, fmt.Sprintf("node %s does not reach PersistentVolume %s, to which claim %q was bound", node.Name, v.Name, x.key.Name)
			}
			if v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID {
				continue
			}
		} else if x.volume == nil && claim.Annotations[volumes.SelectedNode] != choice.node {
			return false, true, fmt.Sprintf("the provisioner could not make a volume for claim %q on node %s", x.key.Name, choice.node)
		} else if x.volume != nil {
			v := client.In[*corev1.PersistentVolume](cat.volumes, "", x.volume.Name)
			if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
				return false, true, fmt.Sprintf("PersistentVolume %s was taken from claim %q", x.volume.Name, x.key.Name)
			}
		}
		if done {
			why = fmt.Sprintf("claim %q is not bound yet", x.key.Name)
		}
		done = false
	}
	return done, false, why
}
