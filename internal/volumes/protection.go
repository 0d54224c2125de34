package volumes

import (
	"slices"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Unsettled tells whether an object's protection is not as it ought to be: an
// object has the finalizer as long as it stays. One that is being deleted is
// to lose it, once nobody uses it any more.
func Unsettled(obj client.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer) == (obj.GetDeletionTimestamp() != nil)
}

// Settle is an unsettled object with the finalizer where it stays, and without
// it where it goes; verb says which.
func Settle[T client.Object](obj T, finalizer string) (changed T, verb string) {
	changed = obj.DeepCopyObject().(T)
	if obj.GetDeletionTimestamp() == nil {
		changed.SetFinalizers(append(changed.GetFinalizers(), finalizer))
		return changed, "protect"
	}
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(f string) bool { return f == finalizer }))
	return changed, "release"
}
