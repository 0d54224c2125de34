package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/quota"
)

var resourceQuotas = client.Resource{Version: "v1", Resource: "resourcequotas"}

// UpdateFunc is how a plugin writes: an object, or a subresource of it. A
// conflict is an error as for any client.
type UpdateFunc func(ctx context.Context, res client.Resource, obj client.Object, subresource string) (client.Object, error)

// ResourceQuota refuses objects that would use more of a namespace's quotas
// than they leave, and takes what it admits from them: it writes their
// status.used before the object is stored, against whoever else does, so that
// two requests cannot both get the last of something. What a request took that
// fails later is given back; what a crash keeps from being given back, and what
// deletions free, the loop of the quotas' status puts right.
// https://kubernetes.io/docs/concepts/policy/resource-quotas/
type ResourceQuota struct {
	List   ListFunc
	Get    GetFunc
	Update UpdateFunc
	mutateNothing
}

// Name implements Plugin.
func (*ResourceQuota) Name() string { return "ResourceQuota" }

// Validate implements Plugin. It runs last: what it takes is for an object that
// nobody changes any more.
func (p *ResourceQuota) Validate(ctx context.Context, r *Request) error {
	if r.Namespace == "" || r.Object == nil || r.Operation != Create && r.Operation != Update {
		return nil
	}
	resize := r.Resource.Resource == "pods" && r.Resource.Group == "" && r.Subresource == "resize"
	if r.Subresource != "" && !resize || r.Operation == Update && !resize && !grows(r) {
		return nil
	}
	quotas, err := p.List(ctx, resourceQuotas, r.Namespace)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("look up the quotas of namespace %s: %w", r.Namespace, err))
	}
	if len(quotas) == 0 {
		return nil
	}
	now := time.Now()
	use := func(obj metav1.Object, q *corev1.ResourceQuota) corev1.ResourceList {
		if obj == nil || !quota.Matches(q, obj) {
			return nil
		}
		return quota.Usage(r.Resource, obj, now)
	}
	slices.SortFunc(quotas, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, obj := range quotas {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			continue
		}
		var old metav1.Object
		if r.Operation == Update {
			old = r.Old
		}
		more := positive(quota.Only(quota.Sub(use(r.Object, q), use(old, q)), q.Spec.Hard))
		if pod, isPod := r.Object.(*corev1.Pod); isPod && quota.Matches(q, pod) && r.Operation == Create {
			if lacks := unspecified(pod, q.Spec.Hard); lacks != "" {
				return r.forbidden(fmt.Sprintf("failed quota: %s: must specify %s", q.Name, lacks))
			}
		}
		if len(more) == 0 {
			continue
		}
		if err := p.take(ctx, r, q, more); err != nil {
			return err
		}
	}
	return nil
}

// grows tells whether an update may use more: only these kinds' can.
func grows(r *Request) bool {
	return r.Resource.Group == "" && (r.Resource.Resource == "services" || r.Resource.Resource == "persistentvolumeclaims")
}

func positive(list corev1.ResourceList) corev1.ResourceList {
	for name, q := range list {
		if q.Sign() <= 0 {
			delete(list, name)
		}
	}
	return list
}

// takeTries is how often a quota is tried that others change as well.
const takeTries = 20

// take adds more to what a quota has used, if that leaves it below its limits.
func (p *ResourceQuota) take(ctx context.Context, r *Request, q *corev1.ResourceQuota, more corev1.ResourceList) error {
	for range takeTries {
		if err := exceeded(r, q, more); err != nil {
			return err
		}
		if r.DryRun {
			return nil
		}
		changed := q.DeepCopy()
		changed.Status.Used = quota.Add(changed.Status.Used, more)
		_, err := p.Update(ctx, resourceQuotas, changed, "status")
		if err == nil {
			r.Rollback = append(r.Rollback, func() { p.giveBack(q, more) })
			return nil
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return apierrors.NewInternalError(fmt.Errorf("take from quota %s: %w", q.Name, err))
		}
		obj, err := p.Get(ctx, resourceQuotas, q.Namespace, q.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		q = obj.(*corev1.ResourceQuota)
	}
	return apierrors.NewConflict(resourceQuotas.GroupResource(), q.Name, fmt.Errorf("too many requests use the quota at the same time"))
}

// giveBack undoes take.
func (p *ResourceQuota) giveBack(q *corev1.ResourceQuota, more corev1.ResourceList) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range takeTries {
		obj, err := p.Get(ctx, resourceQuotas, q.Namespace, q.Name)
		if err != nil {
			return
		}
		changed := obj.DeepCopyObject().(*corev1.ResourceQuota)
		changed.Status.Used = quota.Sub(changed.Status.Used, more)
		if _, err := p.Update(ctx, resourceQuotas, changed, "status"); !apierrors.IsConflict(err) {
			return
		}
	}
}

// exceeded refuses what a quota does not leave.
func exceeded(r *Request, q *corev1.ResourceQuota, more corev1.ResourceList) error {
	var unknown []string
	over := corev1.ResourceList{}
	for name := range more {
		hard, known := q.Status.Hard[name]
		used, counted := q.Status.Used[name]
		if !known || !counted {
			unknown = append(unknown, string(name))
			continue
		}
		sum := used.DeepCopy()
		sum.Add(more[name])
		if sum.Cmp(hard) > 0 {
			over[name] = more[name]
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return r.forbidden(fmt.Sprintf("status unknown for quota: %s, resources: %s", q.Name, strings.Join(unknown, ",")))
	}
	if len(over) > 0 {
		return r.forbidden(fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s",
			q.Name, told(over), told(quota.Only(q.Status.Used, over)), told(quota.Only(q.Status.Hard, over))))
	}
	return nil
}

func told(list corev1.ResourceList) string {
	var parts []string
	for _, name := range names(list) {
		q := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(parts, ",")
}

// unspecified says what a pod's containers have to ask for and do not, since a
// quota limits it: "limits.cpu for: c1,c2; requests.cpu for: c2".
func unspecified(pod *corev1.Pod, hard corev1.ResourceList) string {
	var parts []string
	for _, name := range names(hard) {
		if !quota.IsCompute(name) {
			continue
		}
		limit, isLimit := strings.CutPrefix(string(name), "limits.")
		request := strings.TrimPrefix(string(name), "requests.")
		var lacking []string
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				asked := list[i].Resources.Requests
				of := corev1.ResourceName(request)
				if isLimit {
					asked, of = list[i].Resources.Limits, corev1.ResourceName(limit)
				}
				if !wantsRequest(of) {
					continue
				}
				if _, ok := asked[of]; !ok && !ofPod(pod, isLimit, of) {
					lacking = append(lacking, list[i].Name)
				}
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(lacking), ",")))
		}
	}
	return strings.Join(parts, "; ")
}

// wantsRequest: of these every container has to say how much; of an extended
// resource one that says nothing uses none.
func wantsRequest(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// ofPod tells whether the pod as a whole asks for it.
func ofPod(pod *corev1.Pod, limit bool, name corev1.ResourceName) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	list := pod.Spec.Resources.Requests
	if limit {
		list = pod.Spec.Resources.Limits
	}
	_, ok := list[name]
	return ok
}
