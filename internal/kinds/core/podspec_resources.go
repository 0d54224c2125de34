package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// standardResources are resource names that need no domain before them.
var standardResources = map[corev1.ResourceName]bool{
	corev1.ResourceCPU: true, corev1.ResourceMemory: true, corev1.ResourceEphemeralStorage: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true, corev1.ResourceRequestsEphemeralStorage: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true, corev1.ResourceLimitsEphemeralStorage: true,
	corev1.ResourcePods: true, corev1.ResourceQuotas: true, corev1.ResourceServices: true,
	corev1.ResourceReplicationControllers: true, corev1.ResourceSecrets: true, corev1.ResourceConfigMaps: true,
	corev1.ResourcePersistentVolumeClaims: true, corev1.ResourceStorage: true, corev1.ResourceRequestsStorage: true,
	corev1.ResourceServicesNodePorts: true, corev1.ResourceServicesLoadBalancers: true,
}

// wholeResources are counted in whole numbers.
var wholeResources = map[corev1.ResourceName]bool{
	corev1.ResourcePods: true, corev1.ResourceQuotas: true, corev1.ResourceServices: true,
	corev1.ResourceReplicationControllers: true, corev1.ResourceSecrets: true, corev1.ResourceConfigMaps: true,
	corev1.ResourcePersistentVolumeClaims: true, corev1.ResourceServicesNodePorts: true, corev1.ResourceServicesLoadBalancers: true,
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// native resources belong to Kubernetes itself.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extended resources belong to somebody else, who offers them on nodes.
func extended(name corev1.ResourceName) bool {
	if native(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// overcommits tells whether more of a resource may be limited than requested.
func overcommits(name corev1.ResourceName) bool { return native(name) && !hugePages(name) }

// resourceName checks that a name is qualified or standard, and says whether
// it is.
func resourceName(c *check.Errors, name corev1.ResourceName, path *field.Path) bool {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
		return true
	}
	if bad := utilvalidation.IsQualifiedName(string(name)); len(bad) > 0 {
		for _, msg := range bad {
			c.Invalid(path, "", name, msg)
		}
		return false
	}
	if !strings.Contains(string(name), "/") && !standardResources[name] && !hugePages(name) {
		c.Invalid(path, "", name, "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

// containerResourceName checks the name of what a container uses.
func (s *specCheck) containerResourceName(name corev1.ResourceName, path *field.Path) {
	resourceName(&s.Errors, name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage && !hugePages(name) {
			s.Invalid(path, "", name, "must be a standard resource for containers")
		}
	case !native(name) && !extended(name):
		s.Invalid(path, "", name, "doesn't follow extended resource name standard")
	}
}

// podResourceName checks the name of what a whole pod uses.
func (s *specCheck) podResourceName(name corev1.ResourceName, path *field.Path) {
	if resourceName(&s.Errors, name, path) && !resourcehelper.IsSupportedPodLevelResource(name) {
		check.Among(&s.Errors, path, "", name, sorted(resourcehelper.SupportedPodLevelResources())...)
	}
}

func sorted[M ~map[K]V, K ~string, V any](m M) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// validateQuantity checks an amount of a resource.
func validateQuantity(c *check.Errors, name corev1.ResourceName, q apiresource.Quantity, path *field.Path) {
	if q.Sign() < 0 {
		c.Invalid(path, "", q.String(), validation.IsNegativeErrorMsg)
	}
	if (wholeResources[name] || extended(name)) && q.MilliValue()%1000 != 0 {
		c.Invalid(path, "", q, "must be an integer")
	}
}

// ValidateOverhead checks what a pod costs besides its containers.
func ValidateOverhead(c *check.Errors, list corev1.ResourceList, path *field.Path) {
	s := &specCheck{}
	s.validateRequirements(&corev1.ResourceRequirements{Limits: list}, path, s.containerResourceName)
	c.Add(s.List)
}

func (s *specCheck) validateRequirements(r *corev1.ResourceRequirements, path *field.Path, checkName func(corev1.ResourceName, *field.Path)) {
	compute, huge := false, false
	each := func(list corev1.ResourceList, path *field.Path) {
		for _, name := range sorted(list) {
			q, p := list[name], path.Key(string(name))
			checkName(name, p)
			validateQuantity(&s.Errors, name, q, p)
			switch {
			case hugePages(name):
				huge = true
				s.validateHugePages(name, q, p)
			case name == corev1.ResourceCPU || name == corev1.ResourceMemory:
				compute = true
			}
		}
	}
	if len(r.Limits) > 0 {
		each(r.Limits, path.Child("limits"))
	}
	if len(r.Requests) > 0 {
		each(r.Requests, path.Child("requests"))
		s.validateRequestsWithinLimits(r, path)
	}
	if huge && !compute {
		s.Forbidden(path, "", "HugePages require cpu or memory")
	}
	if len(r.Claims) > 0 {
		s.validateClaimRefs(r.Claims, path.Child("claims"))
	}
}

func (s *specCheck) validateRequestsWithinLimits(r *corev1.ResourceRequirements, path *field.Path) {
	for _, name := range sorted(r.Requests) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case !limited && !overcommits(name):
			s.Required(path, "limits", "Limit must be set for non overcommitable resources")
		case !limited:
		case !overcommits(name) && request.Cmp(limit) != 0:
			s.Invalid(path, "requests", request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case request.Cmp(limit) > 0:
			s.Invalid(path, "requests", request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
}

func (s *specCheck) validateHugePages(name corev1.ResourceName, q apiresource.Quantity, path *field.Path) {
	page, err := apiresource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || page.Value() <= 0 || q.Value()%page.Value() != 0 {
		s.Invalid(path, "", q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
	}
}

// validateClaimRefs checks what a container takes of the pod's resource claims.
func (s *specCheck) validateClaimRefs(claims []corev1.ResourceClaim, path *field.Path) {
	var whole, parts check.Unique[string] // names, and name/request
	var started check.Unique[string]      // names with a request
	for i, claim := range claims {
		p := path.Index(i)
		if claim.Name == "" {
			s.Required(p, "", "")
			continue
		}
		switch {
		case whole.Has(claim.Name), claim.Request == "" && started.Has(claim.Name):
			s.Duplicate(p, "", claim.Name)
		case claim.Request == "":
			whole.Seen(claim.Name)
		default:
			s.Label(p, "request", claim.Request)
			started.Seen(claim.Name)
			if key := claim.Name + "/" + claim.Request; parts.Seen(key) {
				s.Duplicate(p, "", key)
			}
		}
		if !s.claims.Has(claim.Name) {
			err := field.NotFound(p, claim.Name)
			err.Detail = "must be one of the names in pod.spec.resourceClaims" + s.claimNames()
			s.List = append(s.List, err)
		}
	}
}

func (s *specCheck) claimNames() string {
	var names []string
	for i := range s.spec.ResourceClaims {
		if n := s.spec.ResourceClaims[i].Name; n != "" {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return " which is empty"
	}
	slices.Sort(names)
	return ": " + strings.Join(slices.Compact(names), ", ")
}

func (s *specCheck) validateResourceClaims(path *field.Path) {
	for i := range s.spec.ResourceClaims {
		claim, p := &s.spec.ResourceClaims[i], path.Child("resourceClaims").Index(i)
		switch {
		case claim.Name == "":
			s.Required(p, "name", "")
		case s.claims.Seen(claim.Name):
			s.Duplicate(p, "name", claim.Name)
		default:
			s.Label(p, "name", claim.Name)
		}
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			s.Invalid(p, "", *claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			s.Invalid(p, "", *claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if claim.ResourceClaimName != nil {
			s.Subdomain(p, "resourceClaimName", *claim.ResourceClaimName)
		}
		if claim.ResourceClaimTemplateName != nil {
			s.Subdomain(p, "resourceClaimTemplateName", *claim.ResourceClaimTemplateName)
		}
	}
}

// validatePodResources checks what the whole pod may use.
func (s *specCheck) validatePodResources(path *field.Path) {
	r := s.spec.Resources
	if r.Claims != nil {
		s.Forbidden(path, "claims", "claims cannot be set for Resources at pod-level")
	}
	s.validateRequirements(&corev1.ResourceRequirements{Limits: r.Limits, Requests: r.Requests}, path, s.podResourceName)
	all := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *s.spec}, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(all) {
		sum, whole := all[name], r.Requests[name]
		if resourcehelper.IsSupportedPodLevelResource(name) && sum.Cmp(whole) > 0 {
			s.Invalid(path.Child("requests").Key(string(name)), "", whole.String(), fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String()))
		}
	}
	for i := range s.spec.Containers {
		limits := s.spec.Containers[i].Resources.Limits
		for _, name := range sorted(limits) {
			limit := limits[name]
			if whole, ok := r.Limits[name]; ok && limit.Cmp(whole) > 0 {
				s.Invalid(path.Child("containers").Index(i).Key(string(name)), "limits", limit.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", whole.String()))
			}
		}
	}
}

func (s *specCheck) validateResizePolicy(c *corev1.Container, path *field.Path) {
	var names check.Unique[corev1.ResourceName]
	for i, r := range c.ResizePolicy {
		if names.Seen(r.ResourceName) {
			s.Duplicate(path.Index(i), "", r.ResourceName)
		}
		check.OneOf(&s.Errors, path, "", r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		check.OneOf(&s.Errors, path, "", r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		if s.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			s.Invalid(path, "", r.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")
		}
	}
}
