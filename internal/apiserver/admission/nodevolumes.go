package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/localpath"
)

// admitVolume lets a node say of the volumes that lie on it that their folder
// is there, or is not, and nothing else. Part of NodeRestriction.
func admitVolume(r *Request, node string) error {
	now, ok1 := r.Object.(*corev1.PersistentVolume)
	was, ok2 := r.Old.(*corev1.PersistentVolume)
	if r.Operation != Update || r.Subresource != "" || !ok1 || !ok2 {
		return r.forbidden(fmt.Sprintf("node %q can only update volumes", node))
	}
	if !localpath.Ours(was) || was.Labels[localpath.NodeLabel] != node {
		return r.forbidden(fmt.Sprintf("node %q can only update volumes that lie on it", node))
	}
	if !apiequality.Semantic.DeepEqual(withoutFolder(now), withoutFolder(was)) {
		return r.forbidden(fmt.Sprintf("node %q is not allowed to modify volumes, but for the finalizer %s", node, localpath.Finalizer))
	}
	return nil
}

// withoutFolder is a copy of a volume without what a node may write, and what
// every write changes.
func withoutFolder(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v = v.DeepCopy()
	v.ManagedFields, v.ResourceVersion, v.Generation = nil, "", 0
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == localpath.Finalizer })
	return v
}

// admitClaim lets a node say of a claim that its file system has grown, and
// nothing else. Part of NodeRestriction.
func admitClaim(r *Request, node string) error {
	now, ok1 := r.Object.(*corev1.PersistentVolumeClaim)
	was, ok2 := r.Old.(*corev1.PersistentVolumeClaim)
	if r.Operation != Update || r.Subresource != "status" || !ok1 || !ok2 {
		return r.forbidden(fmt.Sprintf("node %q can only update the status of claims", node))
	}
	if !apiequality.Semantic.DeepEqual(withoutGrowth(now), withoutGrowth(was)) {
		return r.forbidden(fmt.Sprintf("node %q is not allowed to update fields other than status.capacity, status.conditions and status.allocatedResourceStatuses", node))
	}
	return nil
}

// withoutGrowth is a copy of a claim without what a node may write, and what
// every write changes.
func withoutGrowth(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c = c.DeepCopy()
	c.ManagedFields, c.ResourceVersion, c.Generation = nil, "", 0
	c.Status.Capacity, c.Status.Conditions, c.Status.AllocatedResourceStatuses = nil, nil, nil
	return c
}
