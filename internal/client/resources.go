package client

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The resources that the built-in loops name.
var (
	Namespaces             = corev1.SchemeGroupVersion.WithResource("namespaces")
	Nodes                  = corev1.SchemeGroupVersion.WithResource("nodes")
	Pods                   = corev1.SchemeGroupVersion.WithResource("pods")
	Services               = corev1.SchemeGroupVersion.WithResource("services")
	Endpoints              = corev1.SchemeGroupVersion.WithResource("endpoints")
	ConfigMaps             = corev1.SchemeGroupVersion.WithResource("configmaps")
	Secrets                = corev1.SchemeGroupVersion.WithResource("secrets")
	ServiceAccounts        = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	Events                 = corev1.SchemeGroupVersion.WithResource("events")
	ReplicationControllers = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
	PersistentVolumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	PersistentVolumes      = corev1.SchemeGroupVersion.WithResource("persistentvolumes")

	Deployments         = appsv1.SchemeGroupVersion.WithResource("deployments")
	ReplicaSets         = appsv1.SchemeGroupVersion.WithResource("replicasets")
	StatefulSets        = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	DaemonSets          = appsv1.SchemeGroupVersion.WithResource("daemonsets")
	ControllerRevisions = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")

	Jobs           = batchv1.SchemeGroupVersion.WithResource("jobs")
	CronJobs       = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	Leases         = coordinationv1.SchemeGroupVersion.WithResource("leases")
	EndpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	CSINodes       = storagev1.SchemeGroupVersion.WithResource("csinodes")

	VolumeAttachments = storagev1.SchemeGroupVersion.WithResource("volumeattachments")

	ServiceCIDRs    = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	IPAddresses     = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	NetworkPolicies = networkingv1.SchemeGroupVersion.WithResource("networkpolicies")

	PodDisruptionBudgets    = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	ResourceQuotas          = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	StorageClasses          = storagev1.SchemeGroupVersion.WithResource("storageclasses")
	VolumeAttributesClasses = storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")
	ClusterRoles            = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	SigningRequests         = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
)
