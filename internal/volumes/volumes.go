// Package volumes is what persistent volumes, claims, classes and pods have to
// do with each other: the annotations by which binder, scheduler and
// provisioners tell each other how far they are, what a volume must be to
// satisfy a claim, which pods use a claim, and what a volume that is attached to
// a node is called there (attachment.go).
//
//	pod --uses--> claim --class--> StorageClass --provisioner--> volume
//	                ^------------- spec.claimRef ------------------|
//	                |------------- spec.volumeName ----------------^
//
// A claim is bound when both point at each other, the claim's uid in the
// volume's claimRef, and the claim says so by BindCompleted.
//
// Everything here is pure; upstream's library of the same rules links a
// client's whole scheme, which every start would pay for.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes/.
package volumes

// The annotations of claims and volumes, and what they mean.
const (
	// BindCompleted, on a claim: it has been bound; what it names is its
	// volume, or is lost.
	BindCompleted = "pv.kubernetes.io/bind-completed"
	// BoundByController, on a claim or a volume: the binder wrote the
	// reference to the other, and may take it away again.
	BoundByController = "pv.kubernetes.io/bound-by-controller"
	// SelectedNode, on a claim: the scheduler wants the volume there.
	SelectedNode = "volume.kubernetes.io/selected-node"
	// StorageProvisioner, on a claim: who is to make its volume.
	StorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	// BetaStorageProvisioner is the same for provisioners of old.
	BetaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	// ProvisionedBy, on a volume: who made it, and has to delete it.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"

	// IsDefaultClass, "true" on a class: claims that name none get it.
	IsDefaultClass = "storageclass.kubernetes.io/is-default-class"
	// BetaIsDefaultClass is the same, of old.
	BetaIsDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// The finalizers that keep what is in use.
const (
	ClaimProtection      = "kubernetes.io/pvc-protection"
	VolumeProtection     = "kubernetes.io/pv-protection"
	AttributesProtection = "kubernetes.io/vac-protection"
)

// NoProvisioner, as a class's provisioner: its volumes are made by hand.
const NoProvisioner = "kubernetes.io/no-provisioner"

// Yes is the value of annotations that are there or not.
const Yes = "yes"
