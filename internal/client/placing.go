package client

import (
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// What placing pods looks at besides nodes and pods.
var (
	CSIDrivers           = storagev1.SchemeGroupVersion.WithResource("csidrivers")
	CSIStorageCapacities = storagev1.SchemeGroupVersion.WithResource("csistoragecapacities")

	ResourceClaims         = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	ResourceClaimTemplates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
	ResourceSlices         = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	DeviceTaintRules       = resourcev1.SchemeGroupVersion.WithResource("devicetaintrules")
	DeviceClasses          = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")
)
