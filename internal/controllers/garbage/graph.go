package garbage

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// The graph of owners and dependents is an index in each view: it is as right
// as the view is. Edges kept by a handler would not do: one that was told late
// or never would let an owner go before its dependents are cut off.

// byOwner indexes objects by the uids of all their owners.
const byOwner = "owner"

func ownersOf(obj client.Object) []string {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	uids := make([]string, len(refs))
	for i, ref := range refs {
		uids[i] = string(ref.UID)
	}
	return uids
}

// place is where an object lies. Its strings are those of the object.
type place struct {
	resource        schema.GroupResource
	namespace, name string
}

func (m *monitor) place(obj client.Object) place {
	return place{m.info.Resource.GroupResource(), obj.GetNamespace(), obj.GetName()}
}

// dependent is an object that names an owner, and who follows it.
type dependent struct {
	client.Object
	kind *monitor
}

// dependents lists what depends on an owner, whether that is there or not.
func (k *kinds) dependents(owner types.UID) (all []dependent) {
	for _, m := range k.list() {
		for _, obj := range m.view.ByIndex(byOwner, string(owner)) {
			all = append(all, dependent{obj, m})
		}
	}
	return all
}

func sameRefs(a, b []metav1.OwnerReference) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UID != b[i].UID || a[i].Name != b[i].Name {
			return false
		}
	}
	return true
}
