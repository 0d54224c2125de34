package persistentvolume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

// claimWorld is what the next step for a claim follows from.
type claimWorld struct {
	claim *corev1.PersistentVolumeClaim
	// volume is the one that the claim names, nil when it is not there.
	volume *corev1.PersistentVolume
	meant  []*corev1.PersistentVolume // whose claimRef names the claim's name
	free   []*corev1.PersistentVolume // of the claim's class
	class  *storagev1.StorageClass    // that the claim names, nil when it is not there
	// fallback is the default class; only of interest when the claim names none.
	fallback *storagev1.StorageClass
	pods     []*corev1.Pod // that use the claim
}

// planClaim decides what is next for a claim.
func planClaim(w *claimWorld) step {
	switch {
	case volumes.Completed(w.claim):
		return w.completed()
	case w.claim.DeletionTimestamp != nil:
		return step{} // nothing is given to it any more
	case w.claim.Spec.VolumeName != "":
		return w.named()
	}
	if v := w.match(); v != nil {
		return w.bind(v)
	}
	return w.unmatched()
}

// match is the volume that a claim gets which names none: one that is meant
// for it, else, unless it waits for a consumer, the smallest that is free.
func (w *claimWorld) match() *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	for _, v := range w.meant {
		if !volumes.MeantFor(v, w.claim) || v.DeletionTimestamp != nil || volumes.Mode(v.Spec.VolumeMode) != volumes.Mode(w.claim.Spec.VolumeMode) {
			continue
		}
		if have := volumes.Capacity(v); have.Cmp(volumes.Requested(w.claim)) < 0 {
			continue
		}
		if best == nil || better(v, best) {
			best = v
		}
	}
	if best != nil || volumes.Delayed(w.class) {
		return best
	}
	return volumes.Smallest(w.free, w.claim, nil)
}

// better: what is surely the claim's, by its uid, before what bears its name.
func better(v, than *corev1.PersistentVolume) bool {
	if sure, other := v.Spec.ClaimRef.UID != "", than.Spec.ClaimRef.UID != ""; sure != other {
		return sure
	}
	return v.Name < than.Name
}

// bind takes the next step of binding the claim and v.
func (w *claimWorld) bind(v *corev1.PersistentVolume) step {
	c := w.claim
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
		return step{volume: volumes.GiveTo(v, c), what: "gave volume " + v.Name + " to the claim"}
	}
	if c.Spec.VolumeName == "" || !volumes.Completed(c) {
		bound := c.DeepCopy()
		if bound.Spec.VolumeName == "" {
			bound.Spec.VolumeName = v.Name
			metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volumes.BoundByController, volumes.Yes)
		}
		metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volumes.BindCompleted, volumes.Yes)
		return step{claim: bound, what: "bound the claim to volume " + v.Name}
	}
	status := *c.Status.DeepCopy()
	if status.Phase != corev1.ClaimBound || len(status.Capacity) == 0 {
		// A bound one grows when its file system has: that is for who resizes.
		status.Capacity = maps.Clone(v.Spec.Capacity)
	}
	if status.Phase != corev1.ClaimBound || status.CurrentVolumeAttributesClassName == nil && v.Spec.VolumeAttributesClassName != nil {
		status.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
	}
	status.Phase, status.AccessModes = corev1.ClaimBound, slices.Clone(v.Spec.AccessModes)
	return w.withStatus(status, "said that the claim is bound", nil)
}

// named decides for a claim that asks for a certain volume.
func (w *claimWorld) named() step {
	name, v := w.claim.Spec.VolumeName, w.volume
	on := "PersistentVolume " + name
	switch {
	case v == nil:
		return w.pending(step{on: on, why: "the claim asks for this volume, which is not there"})
	case v.DeletionTimestamp != nil && (v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != w.claim.UID):
		return w.pending(step{on: on, why: "the claim asks for this volume, which is being deleted"})
	case volumes.MeantFor(v, w.claim):
		return w.bind(v)
	case v.Spec.ClaimRef != nil:
		return w.pending(step{on: on, why: fmt.Sprintf("the claim asks for this volume, which claim %s/%s has", v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name),
			event: w.tell(true, "FailedBinding", "volume %q already bound to a different claim.", name)})
	}
	if why := volumes.Unfit(v, w.claim); why != "" {
		return w.pending(step{on: on, why: why, event: w.tell(true, "VolumeMismatch", "Cannot bind to requested volume %q: %s", name, why)})
	}
	return w.bind(v)
}

// completed decides for a claim that has been bound: it stays so as long as
// its volume is there and its own.
func (w *claimWorld) completed() step {
	v := w.volume
	switch {
	case w.claim.Spec.VolumeName == "":
		return w.lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case v == nil:
		return w.lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef == nil || volumes.MeantFor(v, w.claim):
		return w.bind(v)
	}
	return w.lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

func (w *claimWorld) lost(reason, message string) step {
	status := *w.claim.Status.DeepCopy()
	status.Phase, status.AccessModes, status.Capacity = corev1.ClaimLost, nil, nil
	s := w.withStatus(status, "said that the claim is lost", w.tell(true, reason, "%s", message))
	s.final = true
	if s.claim == nil {
		s.on, s.why = "PersistentVolume "+w.claim.Spec.VolumeName, message
	}
	return s
}

// unmatched decides for a claim for which there is no volume.
func (w *claimWorld) unmatched() step {
	c, name := w.claim, volumes.ClaimClass(w.claim)
	if !volumes.NamesClass(c) && w.fallback != nil {
		classed := c.DeepCopy()
		classed.Spec.StorageClassName = &w.fallback.Name
		return step{claim: classed, what: "gave the claim the default class " + w.fallback.Name}
	}
	switch {
	case name == "":
		const why = "no persistent volumes available for this claim and no storage class is set"
		return w.pending(step{why: why, event: w.tell(false, "FailedBinding", why)})
	case w.class == nil:
		return w.pending(step{on: "StorageClass " + name, why: "the claim's class is not there",
			event: w.tell(true, "ProvisioningFailed", "storageclass.storage.k8s.io %q not found", name)})
	case volumes.Delayed(w.class) && c.Annotations[volumes.SelectedNode] == "":
		return w.pending(w.consumer())
	case strings.HasPrefix(w.class.Provisioner, "kubernetes.io/"):
		return w.pending(step{on: "StorageClass " + name, why: "nobody makes volumes of this class, and no free one satisfies the claim",
			event: w.tell(true, "ProvisioningFailed", "no volume plugin matched name: %s", w.class.Provisioner)})
	}
	if who := w.class.Provisioner; c.Annotations[volumes.StorageProvisioner] != who || c.Annotations[volumes.BetaStorageProvisioner] != who {
		asking := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&asking.ObjectMeta, volumes.StorageProvisioner, who)
		metav1.SetMetaDataAnnotation(&asking.ObjectMeta, volumes.BetaStorageProvisioner, who)
		return step{claim: asking, what: "asked provisioner " + who + " for a volume", event: w.tell(false, "ExternalProvisioning",
			"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", who)}
	}
	return w.pending(step{on: "provisioner " + w.class.Provisioner, why: "it is to make the claim's volume"})
}

// consumer says for which pod a claim waits.
func (w *claimWorld) consumer() step {
	var waiting []string
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			waiting = append(waiting, pod.Name)
		}
	}
	if len(waiting) == 0 {
		return step{on: "Pod", why: "the claim's class waits for the first pod that uses it",
			event: w.tell(false, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")}
	}
	slices.Sort(waiting)
	return step{on: "Pod " + w.claim.Namespace + "/" + waiting[0], why: "it is not scheduled yet",
		event: w.tell(false, "WaitForPodScheduled", "waiting for pod %s to be scheduled", strings.Join(waiting, ","))}
}

// pending sees to it that a claim says that it is before it waits.
func (w *claimWorld) pending(wait step) step {
	if w.claim.Status.Phase == corev1.ClaimPending {
		return wait
	}
	status := *w.claim.Status.DeepCopy()
	status.Phase, status.AccessModes, status.Capacity = corev1.ClaimPending, nil, nil
	return w.withStatus(status, "said that the claim is pending", nil)
}

func (w *claimWorld) withStatus(status corev1.PersistentVolumeClaimStatus, what string, e *event) step {
	if apiequality.Semantic.DeepEqual(status, w.claim.Status) {
		return step{}
	}
	changed := w.claim.DeepCopy()
	changed.Status = status
	return step{claim: changed, status: true, what: what, event: e}
}

func (w *claimWorld) tell(warning bool, reason, format string, args ...any) *event {
	return &event{about: w.claim, warning: warning, reason: reason, message: fmt.Sprintf(format, args...)}
}
