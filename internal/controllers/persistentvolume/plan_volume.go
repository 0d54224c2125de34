package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

// planVolume decides what is next for a volume. claim is the one that its
// claimRef names, nil when it is not there.
func planVolume(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) step {
	ref := v.Spec.ClaimRef
	switch {
	case ref == nil:
		return withPhase(v, corev1.VolumeAvailable, "", nil)
	case ref.UID == "": // meant for a claim by name
		return withPhase(v, corev1.VolumeAvailable, "", nil)
	case claim == nil || claim.UID != ref.UID:
		return release(v)
	case claim.Spec.VolumeName == "":
		return step{} // the claim's next look binds it, or says why not
	case claim.Spec.VolumeName == v.Name:
		return withPhase(v, corev1.VolumeBound, "", nil)
	}
	// The claim took another volume.
	if v.Annotations[volumes.ProvisionedBy] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return release(v) // made for this claim only
	}
	return takeBack(v)
}

// takeBack undoes what the binder wrote: all of the reference, or the uid in
// one that a person wrote.
func takeBack(v *corev1.PersistentVolume) step {
	free := v.DeepCopy()
	if free.Annotations[volumes.BoundByController] != "" {
		free.Spec.ClaimRef = nil
		delete(free.Annotations, volumes.BoundByController)
	} else {
		free.Spec.ClaimRef.UID, free.Spec.ClaimRef.ResourceVersion = "", ""
	}
	return step{volume: free, what: "took the volume back from a claim that has another"}
}

// release decides for a volume whose claim is gone.
func release(v *corev1.PersistentVolume) step {
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		s := withPhase(v, corev1.VolumeReleased, "", nil)
		s.final = true
		return s
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		if who := v.Annotations[volumes.ProvisionedBy]; who != "" {
			return step{on: "provisioner " + who, why: "it is to delete the volume"}
		}
		return fail(v, "VolumeFailedDelete", "no deletable volume plugin matched: nobody has provisioned this volume, and nobody deletes it")
	case corev1.PersistentVolumeReclaimRecycle:
		return fail(v, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	return step{} // retained, until a person decides
}

func fail(v *corev1.PersistentVolume, reason, message string) step {
	return withPhase(v, corev1.VolumeFailed, message, &event{about: v, warning: true, reason: reason, message: message})
}

func withPhase(v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string, e *event) step {
	if v.Status.Phase == phase && v.Status.Message == message {
		return step{}
	}
	changed := v.DeepCopy()
	changed.Status.Phase, changed.Status.Message, changed.Status.Reason = phase, message, ""
	if e != nil {
		changed.Status.Reason = e.reason
	}
	return step{volume: changed, status: true, what: "said that the volume is " + string(phase), event: e}
}
