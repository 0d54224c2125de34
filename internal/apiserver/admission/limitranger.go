package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/setpoint-project/setpoint/internal/client"
)

var limitRanges = client.Resource{Version: "v1", Resource: "limitranges"}

// limitRangerAnnotation says what LimitRanger has filled in.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// LimitRanger gives containers the requests and limits that they leave out, and
// holds pods and claims to the bounds of their namespace.
// https://kubernetes.io/docs/concepts/policy/limit-range/
type LimitRanger struct {
	List ListFunc
}

// Name implements Plugin.
func (*LimitRanger) Name() string { return "LimitRanger" }

// Admit implements Plugin.
func (p *LimitRanger) Admit(ctx context.Context, r *Request) error {
	pod := objectAs[*corev1.Pod](r, "", "pods")
	if pod == nil || r.Operation != Create {
		return nil
	}
	items, err := p.items(ctx, r)
	if err != nil {
		return err
	}
	var told []string
	for _, item := range items {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for i := range pod.Spec.InitContainers {
			told = append(told, fillIn(&pod.Spec.InitContainers[i], item, "init container")...)
		}
		for i := range pod.Spec.Containers {
			told = append(told, fillIn(&pod.Spec.Containers[i], item, "container")...)
		}
	}
	if len(told) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(told, "; ")
	}
	return nil
}

// items are what limits a namespace, in a fixed order.
func (p *LimitRanger) items(ctx context.Context, r *Request) ([]corev1.LimitRangeItem, error) {
	objs, err := p.List(ctx, limitRanges, r.Namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("look up the limits of namespace %s: %w", r.Namespace, err))
	}
	slices.SortFunc(objs, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	var items []corev1.LimitRangeItem
	for _, obj := range objs {
		if lr, ok := obj.(*corev1.LimitRange); ok {
			items = append(items, lr.Spec.Limits...)
		}
	}
	return items, nil
}

// fillIn gives a container what it leaves out, and says what.
func fillIn(c *corev1.Container, item corev1.LimitRangeItem, what string) (told []string) {
	for _, part := range []struct {
		defaults corev1.ResourceList
		list     *corev1.ResourceList
		name     string
	}{
		{item.DefaultRequest, &c.Resources.Requests, "request"}, {item.Default, &c.Resources.Limits, "limit"},
	} {
		var set []string
		for _, name := range names(part.defaults) {
			if _, ok := (*part.list)[name]; ok {
				continue
			}
			if *part.list == nil {
				*part.list = corev1.ResourceList{}
			}
			(*part.list)[name] = part.defaults[name].DeepCopy()
			set = append(set, string(name))
		}
		if len(set) > 0 {
			told = append(told, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), part.name, what, c.Name))
		}
	}
	return told
}

func names(list corev1.ResourceList) []corev1.ResourceName {
	var all []corev1.ResourceName
	for name := range list {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Validate implements Plugin.
func (p *LimitRanger) Validate(ctx context.Context, r *Request) error {
	if r.Operation != Create && r.Operation != Update {
		return nil
	}
	pod := objectAs[*corev1.Pod](r, "", "pods")
	claim := objectAs[*corev1.PersistentVolumeClaim](r, "", "persistentvolumeclaims")
	resized, isResize := r.Object.(*corev1.Pod)
	switch {
	case isResize && r.Resource.Resource == "pods" && r.Subresource == "resize":
		pod = resized
	case pod != nil && r.Operation == Create, claim != nil:
	default:
		return nil
	}
	items, err := p.items(ctx, r)
	if err != nil {
		return err
	}
	var errs []error
	for _, item := range items {
		b := bounds{item: item}
		switch {
		case pod != nil && item.Type == corev1.LimitTypeContainer:
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list {
					b.check(list[i].Resources.Requests, list[i].Resources.Limits)
				}
			}
		case pod != nil && item.Type == corev1.LimitTypePod:
			b.check(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}), resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}))
		case claim != nil && item.Type == corev1.LimitTypePersistentVolumeClaim:
			b.checkRequests(claim.Spec.Resources.Requests)
		}
		errs = append(errs, b.errs...)
	}
	if len(errs) > 0 {
		return r.forbidden(utilerrors.NewAggregate(errs).Error())
	}
	return nil
}

// bounds collects what breaks an item.
type bounds struct {
	item corev1.LimitRangeItem
	errs []error
}

func (b *bounds) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *bounds) check(requests, limits corev1.ResourceList) {
	for _, name := range names(b.item.Min) {
		least := b.item.Min[name]
		what := fmt.Sprintf("minimum %s usage per %s is %s", name, b.item.Type, least.String())
		request, asked := requests[name]
		limit, limited := limits[name]
		switch {
		case !asked:
			b.fail("%s.  No request is specified", what)
		case limited && limit.Cmp(least) < 0:
			b.fail("%s, but limit is %s", what, limit.String())
		case request.Cmp(least) < 0:
			b.fail("%s, but request is %s", what, request.String())
		}
	}
	for _, name := range names(b.item.Max) {
		most := b.item.Max[name]
		what := fmt.Sprintf("maximum %s usage per %s is %s", name, b.item.Type, most.String())
		request, asked := requests[name]
		limit, limited := limits[name]
		switch {
		case !limited:
			b.fail("%s.  No limit is specified", what)
		case limit.Cmp(most) > 0:
			b.fail("%s, but limit is %s", what, limit.String())
		case asked && request.Cmp(most) > 0:
			b.fail("%s, but request is %s", what, request.String())
		}
	}
	for _, name := range names(b.item.MaxLimitRequestRatio) {
		if err := ratio(b.item.MaxLimitRequestRatio[name], requests[name], limits[name]); err != nil {
			most := b.item.MaxLimitRequestRatio[name]
			b.fail("%s max limit to request ratio per %s is %s, but %w", name, b.item.Type, most.String(), err)
		}
	}
}

func ratio(most, request, limit resource.Quantity) error {
	switch got := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); {
	case request.IsZero():
		return errors.New("no request is specified or request is 0")
	case limit.IsZero():
		return errors.New("no limit is specified or limit is 0")
	case got > most.AsApproximateFloat64():
		return fmt.Errorf("provided ratio is %f", got)
	}
	return nil
}

// checkRequests is check for what has no limits.
func (b *bounds) checkRequests(requests corev1.ResourceList) {
	for _, name := range names(b.item.Min) {
		least := b.item.Min[name]
		if request, asked := requests[name]; !asked {
			b.fail("minimum %s usage per %s is %s.  No request is specified", name, b.item.Type, least.String())
		} else if request.Cmp(least) < 0 {
			b.fail("minimum %s usage per %s is %s, but request is %s", name, b.item.Type, least.String(), request.String())
		}
	}
	for _, name := range names(b.item.Max) {
		most := b.item.Max[name]
		if request, asked := requests[name]; !asked {
			b.fail("maximum %s usage per %s is %s.  No request is specified", name, b.item.Type, most.String())
		} else if request.Cmp(most) > 0 {
			b.fail("maximum %s usage per %s is %s, but request is %s", name, b.item.Type, most.String(), request.String())
		}
	}
}
