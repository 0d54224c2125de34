package aggregation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// automanaged marks the APIServices that the loop itself keeps.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// priorities order the groups for clients that take the first who serves a
// name; as upstream has them. What is not listed is a custom group.
var priorities = map[string]int32{
	"": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
	"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
	"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
	"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
	"node.k8s.io": 16300, "discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
	"resource.k8s.io": 15900,
}

// customPriority is that of custom groups.
const (
	customPriority        = 1000
	customVersionPriority = 100
)

// localService is the APIService of a version that the API server serves.
func localService(gv schema.GroupVersion) *apiregistrationv1.APIService {
	out := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{automanaged: "true"}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: customPriority, VersionPriority: customVersionPriority,
		},
	}
	if p, ok := priorities[gv.Group]; ok {
		out.Labels[automanaged] = "onstart"
		out.Spec.GroupPriorityMinimum, out.Spec.VersionPriority = p, 15
	}
	return out
}
