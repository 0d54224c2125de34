package kinds

// showsDeleted are the kinds whose DELETE answers with the object, where
// others answer with a Status.
var showsDeleted = map[string]bool{
	"pods": true, "services": true, "serviceaccounts": true, "podtemplates": true, "resourcequotas": true,
	"persistentvolumes": true, "persistentvolumeclaims": true,
	"csidrivers.storage.k8s.io": true, "csinodes.storage.k8s.io": true, "storageclasses.storage.k8s.io": true,
	"volumeattachments.storage.k8s.io": true, "volumeattributesclasses.storage.k8s.io": true,
	"deviceclasses.resource.k8s.io": true, "resourceclaims.resource.k8s.io": true,
	"resourceclaimtemplates.resource.k8s.io": true, "resourceslices.resource.k8s.io": true,
}

// ShowsDeleted tells whether a DELETE of an object answers with the object.
func (k *Kind) ShowsDeleted() bool { return showsDeleted[k.Resource.String()] }
