package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-project/setpoint/internal/client"
)

func amounts(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func podAsking(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named("default", "web"), Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
	}}}
}

func limitsOf(items ...corev1.LimitRangeItem) world {
	return world{"limitranges/default/l": &corev1.LimitRange{ObjectMeta: named("default", "l"), Spec: corev1.LimitRangeSpec{Limits: items}}}
}

func TestLimitRangerFillsIn(t *testing.T) {
	w := limitsOf(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: amounts("cpu", "500m", "memory", "1Gi"), DefaultRequest: amounts("cpu", "100m")})
	pod := podAsking(amounts("cpu", "200m"), nil)
	mustAdmit(t, &LimitRanger{List: w.list}, request(Create, "pods", pod, nil))
	c := pod.Spec.Containers[0].Resources
	if c.Requests.Cpu().String() != "200m" || c.Limits.Cpu().String() != "500m" || c.Limits.Memory().String() != "1Gi" {
		t.Errorf("resources are %+v", c)
	}
	if got, want := pod.Annotations[limitRangerAnnotation], "LimitRanger plugin set: cpu, memory limit for container c"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestLimitRangerBounds(t *testing.T) {
	container, whole, claim := corev1.LimitTypeContainer, corev1.LimitTypePod, corev1.LimitTypePersistentVolumeClaim
	rows := []struct {
		item             corev1.LimitRangeItem
		requests, limits corev1.ResourceList
		want             string
	}{
		{corev1.LimitRangeItem{Type: container, Min: amounts("cpu", "100m")}, amounts("cpu", "100m"), nil, ""},
		{corev1.LimitRangeItem{Type: container, Min: amounts("cpu", "100m")}, amounts("cpu", "50m"), nil, "minimum cpu usage per Container is 100m, but request is 50m"},
		{corev1.LimitRangeItem{Type: container, Min: amounts("cpu", "100m")}, nil, nil, "minimum cpu usage per Container is 100m.  No request is specified"},
		{corev1.LimitRangeItem{Type: container, Max: amounts("cpu", "1")}, nil, amounts("cpu", "2"), "maximum cpu usage per Container is 1, but limit is 2"},
		{corev1.LimitRangeItem{Type: container, Max: amounts("cpu", "1")}, amounts("cpu", "1"), nil, "maximum cpu usage per Container is 1.  No limit is specified"},
		{corev1.LimitRangeItem{Type: whole, Max: amounts("memory", "1Gi")}, nil, amounts("memory", "2Gi"), "maximum memory usage per Pod is 1Gi, but limit is 2Gi"},
		{corev1.LimitRangeItem{Type: container, MaxLimitRequestRatio: amounts("cpu", "2")}, amounts("cpu", "1"), amounts("cpu", "3"), "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		{corev1.LimitRangeItem{Type: claim, Max: amounts("cpu", "1")}, nil, nil, ""},
	}
	for _, row := range rows {
		p := &LimitRanger{List: limitsOf(row.item).list}
		err := p.Validate(t.Context(), request(Create, "pods", podAsking(row.requests, row.limits), nil))
		if row.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", row.item, err)
			}
			continue
		}
		wantRefused(t, err, 403, row.want)
	}
	p := &LimitRanger{List: limitsOf(corev1.LimitRangeItem{Type: claim, Max: amounts("storage", "1Gi")}).list}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: named("default", "data")}
	c.Spec.Resources.Requests = amounts("storage", "2Gi")
	wantRefused(t, p.Validate(t.Context(), request(Create, "persistentvolumeclaims", c, nil)), 403, "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi")
}

func quotaWorld(hard, used corev1.ResourceList) (world, *ResourceQuota) {
	w := world{"resourcequotas/default/q": &corev1.ResourceQuota{
		ObjectMeta: named("default", "q"), Spec: corev1.ResourceQuotaSpec{Hard: hard},
		Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}}
	return w, &ResourceQuota{List: w.list, Get: w.get, Update: func(_ context.Context, _ client.Resource, obj client.Object, _ string) (client.Object, error) {
		w["resourcequotas/default/q"] = obj
		return obj, nil
	}}
}

func (w world) used(name string) string {
	q := w["resourcequotas/default/q"].(*corev1.ResourceQuota).Status.Used[corev1.ResourceName(name)]
	return q.String()
}

func TestResourceQuota(t *testing.T) {
	hard := amounts("pods", "2", "requests.cpu", "1", "services.nodeports", "0")
	w, p := quotaWorld(hard, amounts("pods", "1", "requests.cpu", "500m", "services.nodeports", "0"))
	fits := podAsking(amounts("cpu", "500m"), nil)
	r := request(Create, "pods", fits, nil)
	r.DryRun = true
	mustAdmit(t, p, r)
	if w.used("pods") != "1" {
		t.Error("a dry run takes from the quota")
	}
	r = request(Create, "pods", fits, nil)
	mustAdmit(t, p, r)
	if w.used("pods") != "2" || w.used("requests.cpu") != "1" {
		t.Errorf("used are %s pods, %s CPU", w.used("pods"), w.used("requests.cpu"))
	}
	wantRefused(t, p.Validate(t.Context(), request(Create, "pods", podAsking(amounts("cpu", "1m"), nil), nil)), 403,
		"exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1")
	r.Rollback[0]()
	if w.used("pods") != "1" {
		t.Errorf("used are %s pods after the request failed", w.used("pods"))
	}
	wantRefused(t, p.Validate(t.Context(), request(Create, "pods", podAsking(nil, nil), nil)), 403, "failed quota: q: must specify requests.cpu for: c")

	svc := func(typ corev1.ServiceType) *corev1.Service {
		return &corev1.Service{ObjectMeta: named("default", "s"), Spec: corev1.ServiceSpec{Type: typ, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	mustAdmit(t, p, request(Create, "services", svc(corev1.ServiceTypeClusterIP), nil))
	wantRefused(t, p.Validate(t.Context(), request(Update, "services", svc(corev1.ServiceTypeNodePort), svc(corev1.ServiceTypeClusterIP))), 403, "exceeded quota: q, requested: services.nodeports=1")

	_, p = quotaWorld(amounts("count/jobs.batch", "1"), nil)
	wantRefused(t, p.Validate(t.Context(), request(Create, "jobs.batch", &corev1.ConfigMap{ObjectMeta: named("default", "j")}, nil)), 403, "status unknown for quota: q, resources: count/jobs.batch")
}

// Two requests at once cannot both have the last of something.
func TestResourceQuotaConflict(t *testing.T) {
	w, p := quotaWorld(amounts("pods", "1"), amounts("pods", "0"))
	write := p.Update
	p.Update = func(ctx context.Context, res client.Resource, obj client.Object, sub string) (client.Object, error) {
		p.Update = write
		other := w["resourcequotas/default/q"].DeepCopyObject().(*corev1.ResourceQuota)
		other.Status.Used = amounts("pods", "1")
		w["resourcequotas/default/q"] = other
		return nil, apierrors.NewConflict(res.GroupResource(), "q", nil)
	}
	wantRefused(t, p.Validate(t.Context(), request(Create, "pods", podAsking(nil, nil), nil)), 403, "exceeded quota")
}
