package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func pod(requests, limits corev1.ResourceList, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func TestUsage(t *testing.T) {
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	overdue := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-time.Second)}, new(int64(30))
	}
	service := func(typ corev1.ServiceType, allocate *bool) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: typ, AllocateLoadBalancerNodePorts: allocate, Ports: []corev1.ServicePort{{}, {NodePort: 30000}}}}
	}
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("gold"), Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "5Gi")},
	}}
	core := func(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }
	rows := []struct {
		name string
		res  schema.GroupResource
		obj  metav1.Object
		want corev1.ResourceList
	}{
		{"a pod", core("pods"), pod(list("cpu", "1", "memory", "1Gi", "example.com/gpu", "2"), list("cpu", "2")),
			list("count/pods", "1", "pods", "1", "cpu", "1", "memory", "1Gi", "requests.cpu", "1", "requests.memory", "1Gi", "requests.example.com/gpu", "2", "limits.cpu", "2")},
		{"one that has ended", core("pods"), pod(list("cpu", "1"), nil, ended), list("count/pods", "1")},
		{"one that ought to be gone", core("pods"), pod(list("cpu", "1"), nil, overdue), list("count/pods", "1")},
		{"a service", core("services"), service(corev1.ServiceTypeClusterIP, nil), list("count/services", "1", "services", "1")},
		{"with node ports", core("services"), service(corev1.ServiceTypeNodePort, nil), list("count/services", "1", "services", "1", "services.nodeports", "2")},
		{"with a load balancer", core("services"), service(corev1.ServiceTypeLoadBalancer, new(false)), list("count/services", "1", "services", "1", "services.loadbalancers", "1", "services.nodeports", "1")},
		{"a claim", core("persistentvolumeclaims"), claim, list("count/persistentvolumeclaims", "1", "persistentvolumeclaims", "1", "requests.storage", "5Gi",
			"gold.storageclass.storage.k8s.io/requests.storage", "5Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1")},
		{"a secret", core("secrets"), &corev1.Secret{}, list("count/secrets", "1", "secrets", "1")},
		{"a job", schema.GroupResource{Group: "batch", Resource: "jobs"}, &metav1.ObjectMeta{}, list("count/jobs.batch", "1")},
	}
	for _, row := range rows {
		got := Usage(row.res, row.obj, now)
		rest := Sub(row.want, got)
		for name, q := range rest {
			if !q.IsZero() || len(got) != len(row.want) {
				t.Errorf("%s: %s is %v too few; got %v", row.name, name, q.String(), got)
			}
		}
		for name := range got {
			if res, ok := Counted(name); !ok || res != row.res {
				t.Errorf("%s is of %v, want %v", name, res, row.res)
			}
		}
	}
}

func TestScopes(t *testing.T) {
	scoped := func(r corev1.ScopedResourceSelectorRequirement) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{r}}}}
	}
	exists := func(s corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{s}}}
	}
	priority := func(op corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
		return scoped(corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values})
	}
	plain, busy := pod(nil, nil), pod(list("cpu", "1"), nil)
	short := pod(nil, nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) })
	high := pod(nil, nil, func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	far := pod(nil, nil, func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{Namespaces: []string{"x"}}}}}
	})
	rows := []struct {
		quota *corev1.ResourceQuota
		yes   metav1.Object
		no    metav1.Object
	}{
		{&corev1.ResourceQuota{}, &corev1.Secret{}, nil},
		{exists(corev1.ResourceQuotaScopeBestEffort), plain, busy},
		{exists(corev1.ResourceQuotaScopeNotBestEffort), busy, plain},
		{exists(corev1.ResourceQuotaScopeTerminating), short, plain},
		{exists(corev1.ResourceQuotaScopeNotTerminating), plain, short},
		{exists(corev1.ResourceQuotaScopeNotTerminating), plain, &corev1.Service{}},
		{exists(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), far, plain},
		{priority(corev1.ScopeSelectorOpIn, "high", "low"), high, plain},
		{priority(corev1.ScopeSelectorOpNotIn, "high"), plain, high},
		{priority(corev1.ScopeSelectorOpExists), high, plain},
		{priority(corev1.ScopeSelectorOpDoesNotExist), plain, high},
	}
	for i, row := range rows {
		if !Matches(row.quota, row.yes) || row.no != nil && Matches(row.quota, row.no) {
			t.Errorf("row %d: %+v", i, row.quota.Spec)
		}
	}
}
