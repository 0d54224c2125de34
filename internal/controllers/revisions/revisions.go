// Package revisions keeps the history of a workload's pod template in
// ControllerRevisions, for the loops whose pods have an identity and so cannot
// be handed from one ReplicaSet to the next.
//
//	want, err := revisions.New(set, kind, set.Spec.Template.Labels, &set.Spec.Template, set.Status.CollisionCount)
//	now, step := revisions.Next(want, owned)      // create, bring forward, or nothing
//	old := revisions.Surplus(owned, inUse, limit) // one that may be forgotten
//
// A revision's data is a patch that puts the template back, which is what
// `kubectl rollout undo` applies. Its name ends in a hash of the data; should
// another object have the name, the owner counts a collision and the hash
// changes.
//
// Everything but Keep and Keeper is pure.
//
// See https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/controller-revision-v1/.
package revisions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/setpoint-project/setpoint/internal/client"
)

// HashLabel is that of a revision; appsv1.ControllerRevisionHashLabelKey is
// that of pods, which is also on the revisions of DaemonSets.
const HashLabel = "controller.kubernetes.io/hash"

// New describes the revision of a template. Its number is still open.
func New(owner client.Object, kind schema.GroupVersionKind, labels map[string]string, template *corev1.PodTemplateSpec, collisions *int32) (*appsv1.ControllerRevision, error) {
	data, err := patchOf(template)
	if err != nil {
		return nil, err
	}
	hash := hashOf(data, collisions)
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[HashLabel] = hash
	name := owner.GetName()
	if limit := 253 - len(hash) - 1; len(name) > limit {
		name = name[:limit]
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-" + hash, Namespace: owner.GetNamespace(), Labels: labels,
			Annotations:     maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Data: runtime.RawExtension{Raw: data},
	}, nil
}

// patchOf is the patch that puts a template into its owner.
func patchOf(template *corev1.PodTemplateSpec) ([]byte, error) {
	text, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encode the template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

func hashOf(data []byte, collisions *int32) string {
	h := fnv.New32()
	h.Write(data)
	if collisions != nil {
		h.Write([]byte(strconv.FormatInt(int64(*collisions), 10)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// Template is what a revision keeps.
func Template(rev *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var patch struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(rev.Data.Raw, &patch); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: %w", rev.Namespace, rev.Name, err)
	}
	return &patch.Spec.Template, nil
}

// Equal tells whether two revisions keep the same.
func Equal(a, b *appsv1.ControllerRevision) bool {
	return bytes.Equal(bytes.TrimSpace(a.Data.Raw), bytes.TrimSpace(b.Data.Raw))
}

// Sort puts the oldest first. Of equal numbers the order is that of creation.
func Sort(revs []*appsv1.ControllerRevision) {
	slices.SortFunc(revs, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Step is what is to be done so that the template in force has the highest
// number: at most one of the fields is set.
type Step struct {
	Create *appsv1.ControllerRevision
	Update *appsv1.ControllerRevision
}

// Next finds the revision that keeps the same as want, and what is to be done
// to have it on top. It sorts owned.
func Next(want *appsv1.ControllerRevision, owned []*appsv1.ControllerRevision) (now *appsv1.ControllerRevision, s Step) {
	Sort(owned)
	next := int64(1)
	if n := len(owned); n > 0 {
		next = owned[n-1].Revision + 1
	}
	for i, rev := range slices.Backward(owned) {
		if !Equal(rev, want) {
			continue
		}
		if i < len(owned)-1 {
			rev = rev.DeepCopy()
			rev.Revision = next
			s.Update = rev
		}
		return rev, s
	}
	want.Revision = next
	return want, Step{Create: want}
}

// Surplus is the oldest revision that nobody uses, when there are more of
// those than limit; else nil. It sorts owned.
func Surplus(owned []*appsv1.ControllerRevision, used func(*appsv1.ControllerRevision) bool, limit int32) *appsv1.ControllerRevision {
	Sort(owned)
	var idle []*appsv1.ControllerRevision
	for _, rev := range owned {
		if !used(rev) && rev.DeletionTimestamp == nil {
			idle = append(idle, rev)
		}
	}
	if len(idle) <= int(limit) {
		return nil
	}
	return idle[0]
}

// Keep carries a Step out. taken says that another object has the name: the
// owner is to count one more collision.
func Keep(ctx context.Context, c client.Interface, owner client.Object, s Step) (got client.Object, taken bool, err error) {
	if s.Update != nil {
		got, err = c.Update(ctx, client.ControllerRevisions, s.Update)
		return got, false, err
	}
	got, err = c.Create(ctx, client.ControllerRevisions, s.Create)
	if !apierrors.IsAlreadyExists(err) {
		return got, false, err
	}
	there, err := client.Get[*appsv1.ControllerRevision](ctx, c, client.ControllerRevisions, s.Create.Namespace, s.Create.Name)
	if err != nil {
		return nil, false, err
	}
	if metav1.IsControlledBy(there, owner) && Equal(there, s.Create) {
		return there, false, nil // an answer was lost
	}
	return nil, true, nil
}
