package apiserver

import (
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
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

// writeOptions reads dryRun, fieldManager and fieldValidation into c.
func (q query) writeOptions(c *call, kind string) error {
	if q.values == nil {
		return nil
	}
	o := q.patchValues()
	return c.writeOptions(kind, o, validation.ValidateUpdateOptions(&metav1.UpdateOptions{
		DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}))
}

// patchOptions is writeOptions for a patch, which may also be forced.
func (q query) patchOptions(c *call, pt types.PatchType) error {
	o := q.patchValues()
	return c.writeOptions("PatchOptions", o, validation.ValidatePatchOptions(o, pt))
}

// patchValues are the options of any write; those of a patch are the most.
func (q query) patchValues() *metav1.PatchOptions {
	o := &metav1.PatchOptions{FieldManager: q.get("fieldManager"), FieldValidation: q.get("fieldValidation")}
	for _, v := range q.values["dryRun"] {
		if v != "" {
			o.DryRun = append(o.DryRun, v)
		}
	}
	if q.values.Has("force") {
		force := q.bool("force")
		o.Force = &force
	}
	return o
}

// writeOptions takes options that are valid.
func (c *call) writeOptions(kind string, o *metav1.PatchOptions, errs field.ErrorList) error {
	if len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
	}
	c.dryRun = c.dryRun || len(o.DryRun) > 0
	c.manager, c.force = o.FieldManager, o.Force != nil && *o.Force
	switch o.FieldValidation {
	case metav1.FieldValidationStrict:
		c.fields = fieldsStrict
	case metav1.FieldValidationIgnore:
		c.fields = fieldsIgnore
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
