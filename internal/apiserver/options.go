package apiserver

import (
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// query holds the query of a URL: parsed once, and not at all when empty.
type query struct{ values url.Values }

func (q query) get(key string) string {
	if q.values == nil {
		return ""
	}
	return q.values.Get(key)
}

func (q query) bool(key string) bool {
	if q.values == nil || !q.values.Has(key) {
		return false
	}
	v := q.values.Get(key)
	return v != "false" && v != "0"
}

func (q query) int(key string) (*int64, error) {
	v := q.get(key)
	if v == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &n, nil
}

func (q query) listOptions() (*metav1.ListOptions, error) {
	o := &metav1.ListOptions{}
	if q.values == nil {
		return o, nil
	}
	o.LabelSelector, o.FieldSelector = q.get("labelSelector"), q.get("fieldSelector")
	o.ResourceVersion = q.get("resourceVersion")
	o.ResourceVersionMatch = metav1.ResourceVersionMatch(q.get("resourceVersionMatch"))
	o.Continue = q.get("continue")
	o.Watch, o.AllowWatchBookmarks = q.bool("watch"), q.bool("allowWatchBookmarks")
	if q.values.Has("sendInitialEvents") {
		v := q.bool("sendInitialEvents")
		o.SendInitialEvents = &v
	}
	var err error
	if o.TimeoutSeconds, err = q.int("timeoutSeconds"); err != nil {
		return nil, err
	}
	limit, err := q.int("limit")
	if err != nil {
		return nil, err
	}
	if limit != nil && *limit > 0 {
		o.Limit = *limit
	}
	return o, nil
}

// writeOptions reads dryRun and fieldValidation into c.
func (q query) writeOptions(c *call, kind string) error {
	if q.values == nil {
		return nil
	}
	for _, v := range q.values["dryRun"] {
		if v == "" {
			continue
		}
		if v != metav1.DryRunAll {
			return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", dryRunErrors(v))
		}
		c.dryRun = true
	}
	switch v := q.get("fieldValidation"); v {
	case "", metav1.FieldValidationWarn:
	case metav1.FieldValidationStrict:
		c.fields = fieldsStrict
	case metav1.FieldValidationIgnore:
		c.fields = fieldsIgnore
	default:
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", fieldValidationErrors(v))
	}
	return nil
}

// deleteOptions reads what a DELETE says in its URL.
func (q query) deleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	if q.values == nil {
		return o, nil
	}
	var err error
	if o.GracePeriodSeconds, err = q.int("gracePeriodSeconds"); err != nil {
		return nil, err
	}
	if v := q.get("propagationPolicy"); v != "" {
		p := metav1.DeletionPropagation(v)
		o.PropagationPolicy = &p
	}
	if q.values.Has("orphanDependents") {
		v := q.bool("orphanDependents")
		o.OrphanDependents = &v
	}
	for _, v := range q.values["dryRun"] {
		if v != "" {
			o.DryRun = append(o.DryRun, v)
		}
	}
	return o, nil
}

func dryRunErrors(v string) field.ErrorList {
	return field.ErrorList{field.NotSupported(field.NewPath("dryRun"), []string{v}, []string{metav1.DryRunAll})}
}

func fieldValidationErrors(v string) field.ErrorList {
	return field.ErrorList{field.NotSupported(field.NewPath("fieldValidation"), v,
		[]string{metav1.FieldValidationIgnore, metav1.FieldValidationWarn, metav1.FieldValidationStrict, ""})}
}
