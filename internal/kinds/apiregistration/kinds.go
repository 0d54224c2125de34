// Package apiregistration describes the kind of apiregistration.k8s.io: the
// APIService, which says who serves a version of an API group.
// apiserver/aggregation acts on it.
package apiregistration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

var v1 = apiregistrationv1.SchemeGroupVersion

type (
	apiService = apiregistrationv1.APIService
	list       = apiregistrationv1.APIServiceList
)

// Kinds of the group.
func Kinds() []*kinds.Kind {
	split := strategy.Of[apiService]()
	return []*kinds.Kind{{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "apiservices"},
		Kind:     "APIService", Singular: "apiservice", Categories: []string{"api-extensions"},
		StoragePrefix:  "/registry/apiregistration.k8s.io/apiservices/",
		Versions:       []kinds.Version{strategy.Version[apiService, list](v1, setDefaults)},
		PrepareCreate:  split.PrepareCreate,
		PrepareUpdate:  split.PrepareUpdate,
		Validate:       strategy.Validate(validate),
		ValidateUpdate: strategy.ValidateUpdate(func(s, _ *apiService) field.ErrorList { return validate(s) }),
		ValidateName:   func(name string, _ bool) []string { return content.IsPathSegmentName(name) },
		Subresources: map[string]*kinds.Subresource{"status": {
			Verbs: []string{"get", "patch", "update"}, PrepareUpdate: split.PrepareStatus,
			ValidateUpdate: func(_ context.Context, obj, _ kinds.Object) field.ErrorList { return validateStatus(obj.(*apiService)) },
		}},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Service", "string", "The reference to the service that hosts this API endpoint.", func(s *apiService) any { return server(s) }),
			strategy.Column("Available", "string", "Whether this service is available.", func(s *apiService) any { return available(s) }),
			strategy.Age(),
		},
	}}
}

func setDefaults(s *apiService) {
	if s.Spec.Service != nil && s.Spec.Service.Port == nil {
		port := int32(443)
		s.Spec.Service.Port = &port
	}
}

func server(s *apiService) string {
	if s.Spec.Service == nil {
		return "Local"
	}
	return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
}

func available(s *apiService) string {
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status == apiregistrationv1.ConditionTrue {
			return "True"
		}
		return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
	}
	return string(apiregistrationv1.ConditionUnknown)
}

func validate(s *apiService) (errs field.ErrorList) {
	spec, path := &s.Spec, field.NewPath("spec")
	if want := spec.Version + "." + spec.Group; s.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
	}
	if spec.Group == "" && spec.Version != "v1" {
		errs = append(errs, field.Required(path.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if spec.Group != "" {
		for _, wrong := range utilvalidation.IsDNS1123Subdomain(spec.Group) {
			errs = append(errs, field.Invalid(path.Child("group"), spec.Group, wrong))
		}
	}
	for _, wrong := range utilvalidation.IsDNS1035Label(spec.Version) {
		errs = append(errs, field.Invalid(path.Child("version"), spec.Version, wrong))
	}
	if n := spec.GroupPriorityMinimum; n <= 0 || n > 20000 {
		errs = append(errs, field.Invalid(path.Child("groupPriorityMinimum"), n, "must be positive and less than 20000"))
	}
	if n := spec.VersionPriority; n <= 0 || n > 1000 {
		errs = append(errs, field.Invalid(path.Child("versionPriority"), n, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		if n := len(spec.CABundle); n != 0 {
			errs = append(errs, field.Invalid(path.Child("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
		}
		if spec.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	at := path.Child("service")
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if p := spec.Service.Port; p != nil {
		if wrong := utilvalidation.IsValidPortNum(int(*p)); wrong != nil {
			errs = append(errs, field.Invalid(at.Child("port"), *p, "port is not valid: "+strings.Join(wrong, ", ")))
		}
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateStatus(s *apiService) (errs field.ErrorList) {
	accepted := []apiregistrationv1.ConditionStatus{apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown}
	for i, c := range s.Status.Conditions {
		if !slices.Contains(accepted, c.Status) {
			errs = append(errs, field.NotSupported(field.NewPath("status", "conditions").Index(i).Child("status"), c.Status, accepted))
		}
	}
	return errs
}
