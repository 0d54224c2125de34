package resource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
)

// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
func validateDeviceClaim(c *check.Errors, claim *resourcev1.DeviceClaim, was stored, path *field.Path) {
	atMost(c, path, "requests", len(claim.Requests), resourcev1.DeviceRequestsMaxSize)
	atMost(c, path, "constraints", len(claim.Constraints), resourcev1.DeviceConstraintsMaxSize)
	atMost(c, path, "config", len(claim.Config), resourcev1.DeviceConfigMaxSize)
	known := map[string]bool{}
	var names check.Unique[string]
	for i := range claim.Requests {
		r, p := &claim.Requests[i], path.Child("requests").Index(i)
		c.Name(p, "name", r.Name)
		if names.Seen(r.Name) {
			c.Duplicate(p, "name", r.Name)
		}
		known[r.Name] = true
		validateDeviceRequest(c, r, was, p)
		for _, sub := range r.FirstAvailable {
			known[r.Name+"/"+sub.Name] = true
		}
	}
	for i := range claim.Constraints {
		k, p := &claim.Constraints[i], path.Child("constraints").Index(i)
		validateRequestNames(c, k.Requests, known, p)
		switch match, distinct := k.MatchAttribute, k.DistinctAttribute; {
		case match == nil && distinct == nil:
			c.Required(p, "", "exactly one of `matchAttribute` or `distinctAttribute` is required")
		case match != nil && distinct != nil:
			c.Invalid(p, "", field.OmitValueType{}, "exactly one of `matchAttribute` or `distinctAttribute` is required, but multiple fields are set")
		case match != nil:
			validateFullName(c, string(*match), p, "matchAttribute")
		default:
			validateFullName(c, string(*distinct), p, "distinctAttribute")
		}
	}
	for i := range claim.Config {
		p := path.Child("config").Index(i)
		validateRequestNames(c, claim.Config[i].Requests, known, p)
		validateConfiguration(c, &claim.Config[i].DeviceConfiguration, p)
	}
}

func atMost(c *check.Errors, path *field.Path, name string, have, max int) {
	if have > max {
		c.TooMany(path, name, have, max)
	}
}

func validateRequestNames(c *check.Errors, list []string, known map[string]bool, path *field.Path) {
	atMost(c, path, "requests", len(list), resourcev1.DeviceRequestsMaxSize)
	var seen check.Unique[string]
	for i, name := range list {
		p := path.Child("requests").Index(i)
		if seen.Seen(name) {
			c.Duplicate(p, "", name)
		}
		if !known[name] {
			c.Invalid(p, "", name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
		}
	}
}

func validateDeviceRequest(c *check.Errors, r *resourcev1.DeviceRequest, was stored, path *field.Path) {
	switch exact, first := r.Exactly != nil, len(r.FirstAvailable) > 0; {
	case !exact && !first:
		c.Required(path, "", "exactly one of `exactly` or `firstAvailable` is required")
	case exact && first:
		c.Invalid(path, "", field.OmitValueType{}, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
	}
	if e := r.Exactly; e != nil {
		validateWanted(c, wanted{e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations}, was, path.Child("exactly"))
	}
	atMost(c, path, "firstAvailable", len(r.FirstAvailable), resourcev1.FirstAvailableDeviceRequestMaxSize)
	var names check.Unique[string]
	for i := range r.FirstAvailable {
		s, p := &r.FirstAvailable[i], path.Child("firstAvailable").Index(i)
		c.Name(p, "name", s.Name)
		if names.Seen(s.Name) {
			c.Duplicate(p, "name", s.Name)
		}
		validateWanted(c, wanted{s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations}, was, p)
	}
}

// wanted is what requests and their alternatives have in common.
type wanted struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func validateWanted(c *check.Errors, w wanted, was stored, path *field.Path) {
	if w.class == "" {
		c.Required(path, "deviceClassName", "")
	} else {
		c.Subdomain(path, "deviceClassName", w.class)
	}
	validateSelectors(c, w.selectors, was, path)
	switch w.mode {
	case resourcev1.DeviceAllocationModeAll:
		if w.count != 0 {
			c.Invalid(path, "count", w.count, "must not be specified when allocationMode is 'All'")
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if w.count <= 0 {
			c.Invalid(path, "count", w.count, "must be greater than zero")
		}
	default:
		check.Among(c, path, "allocationMode", w.mode, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
	}
	atMost(c, path, "tolerations", len(w.tolerations), resourcev1.DeviceTolerationsMaxLength)
	for i, t := range w.tolerations {
		validateToleration(c, t, path.Child("tolerations").Index(i))
	}
}

func validateToleration(c *check.Errors, t resourcev1.DeviceToleration, path *field.Path) {
	if t.Key != "" {
		c.Qualified(path, "key", t.Key)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			c.Invalid(path, "value", t.Value, "must be empty for operator `Exists`")
		}
	case resourcev1.DeviceTolerationOpEqual:
		c.Text(path, "value", t.Value, validation.IsValidLabelValue(t.Value))
	case "":
		c.Required(path, "operator", "")
	default:
		check.Among(c, path, "operator", t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)
	}
	if t.Effect != "" {
		check.Among(c, path, "effect", t.Effect, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
	}
}

func validateConfiguration(c *check.Errors, d *resourcev1.DeviceConfiguration, path *field.Path) {
	if d.Opaque == nil {
		c.Required(path, "opaque", "")
		return
	}
	p := path.Child("opaque")
	validateDriverName(c, d.Opaque.Driver, p, "driver")
	switch raw := d.Opaque.Parameters.Raw; {
	case len(raw) == 0:
		c.Required(p, "parameters", "")
	case len(raw) > resourcev1.OpaqueParametersMaxLength:
		c.TooLong(p, "parameters", resourcev1.OpaqueParametersMaxLength)
	default:
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			c.Invalid(p, "parameters", "<value omitted>", "error parsing data as JSON: "+err.Error())
		}
	}
}

func validateDriverName(c *check.Errors, name string, path *field.Path, at string) {
	if name == "" {
		c.Required(path, at, "")
		return
	}
	if len(name) > resourcev1.DriverNameMaxLength {
		c.TooLong(path, at, resourcev1.DriverNameMaxLength)
	}
	c.Text(path, at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
}

// validatePoolName wants one or more domains, joined by slashes.
func validatePoolName(c *check.Errors, name string, path *field.Path, at string) {
	if name == "" {
		c.Required(path, at, "")
		return
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		c.TooLong(path, at, resourcev1.PoolNameMaxLength)
	}
	for part := range strings.SplitSeq(name, "/") {
		c.Text(path, at, part, validation.IsDNS1123Subdomain(part))
	}
}

// validateFullName wants an attribute's name with its domain.
func validateFullName(c *check.Errors, name string, path *field.Path, at string) {
	domain, id, ok := strings.Cut(name, "/")
	if name == "" {
		c.Required(path, at, "")
	} else if !ok {
		c.Invalid(path, at, name, "must include a domain")
	} else {
		validateNameParts(c, name, domain, id, path, at)
	}
}

func validateNameParts(c *check.Errors, name, domain, id string, path *field.Path, at string) {
	if domain == "" {
		c.Required(path, at, "the domain must not be empty")
	} else {
		c.Text(path, at, domain, validation.IsDNS1123Subdomain(domain))
		if len(domain) > resourcev1.DeviceMaxDomainLength {
			c.TooLong(path, at, resourcev1.DeviceMaxDomainLength)
		}
	}
	validateID(c, id, path, at)
}

// validateID wants the name of a variable of C.
func validateID(c *check.Errors, id string, path *field.Path, at string) {
	if id == "" {
		c.Required(path, at, "the name must not be empty")
		return
	}
	if len(id) > resourcev1.DeviceMaxIDLength {
		c.TooLong(path, at, resourcev1.DeviceMaxIDLength)
	}
	for i, r := range id {
		if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9') {
			c.Invalid(path, at, id, "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')")
			return
		}
	}
}

func validateClaimStatus(claim, old *resourcev1.ResourceClaim) field.ErrorList {
	var c check.Errors
	now, was, path := &claim.Status, &old.Status, field.NewPath("status")
	p := path.Child("reservedFor")
	atMost(&c, p, "", len(now.ReservedFor), resourcev1.ResourceClaimReservedForMaxSize)
	var users check.Unique[string]
	for i, user := range now.ReservedFor {
		p := p.Index(i)
		if user.APIGroup != "" {
			c.Subdomain(p, "apiGroup", user.APIGroup)
		}
		c.NotEmpty(p, "resource", user.Resource)
		c.NotEmpty(p, "name", user.Name)
		c.NotEmpty(p, "uid", string(user.UID))
		if users.Seen(string(user.UID)) {
			c.Duplicate(p, "uid", user.UID)
		}
	}
	if len(now.ReservedFor) > 0 && now.Allocation == nil {
		c.Forbidden(path, "reservedFor", "may not be specified when `allocated` is not set")
	}
	if claim.DeletionTimestamp != nil && len(now.ReservedFor) > len(was.ReservedFor) {
		c.Forbidden(path, "reservedFor", "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
	}
	if was.Allocation != nil && now.Allocation != nil && !apiequality.Semantic.DeepEqual(was.Allocation, now.Allocation) {
		c.Immutable(path, "allocation", now.Allocation)
	}
	if a := now.Allocation; a != nil {
		p := path.Child("allocation", "devices")
		atMost(&c, p, "results", len(a.Devices.Results), resourcev1.AllocationResultsMaxSize)
		for i, r := range a.Devices.Results {
			p := p.Child("results").Index(i)
			validateDriverName(&c, r.Driver, p, "driver")
			validatePoolName(&c, r.Pool, p, "pool")
			c.Name(p, "device", r.Device)
		}
		if a.NodeSelector != nil {
			core.ValidateNodeSelector(&c, a.NodeSelector, path.Child("allocation", "nodeSelector"))
		}
	}
	for i := range now.Devices {
		d, p := &now.Devices[i], path.Child("devices").Index(i)
		validateDriverName(&c, d.Driver, p, "driver")
		validatePoolName(&c, d.Pool, p, "pool")
		c.Name(p, "device", d.Device)
		c.Add(metavalidation.ValidateConditions(d.Conditions, p.Child("conditions")))
		if !allocated(now.Allocation, d) {
			c.Invalid(p, "", fmt.Sprintf("%s/%s/%s", d.Driver, d.Pool, d.Device), "must be an allocated device in the claim")
		}
	}
	return c.List
}

func allocated(a *resourcev1.AllocationResult, d *resourcev1.AllocatedDeviceStatus) bool {
	return a != nil && slices.ContainsFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device
	})
}
