package resource

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
)

func validateSlice(s *resourcev1.ResourceSlice) field.ErrorList {
	var c check.Errors
	spec, path := &s.Spec, field.NewPath("spec")
	validateDriverName(&c, spec.Driver, path, "driver")
	validatePoolName(&c, spec.Pool.Name, path.Child("pool"), "name")
	if spec.Pool.ResourceSliceCount <= 0 {
		c.Invalid(path.Child("pool"), "resourceSliceCount", spec.Pool.ResourceSliceCount, "must be greater than zero")
	}
	if spec.Pool.Generation < 0 {
		c.Invalid(path.Child("pool"), "generation", spec.Pool.Generation, "must be greater than or equal to zero")
	}
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	validateWhere(&c, where{spec.NodeName, spec.NodeSelector, spec.AllNodes}, perDevice, path)
	if len(spec.SharedCounters) > 0 && len(spec.Devices) > 0 {
		c.Invalid(path, "", field.OmitValueType{}, "only one of `sharedCounters` or `devices` is allowed")
	}
	atMost(&c, path, "devices", len(spec.Devices), resourcev1.ResourceSliceMaxDevices)
	var names check.Unique[string]
	for i := range spec.Devices {
		d, p := &spec.Devices[i], path.Child("devices").Index(i)
		c.Name(p, "name", d.Name)
		if names.Seen(d.Name) {
			c.Duplicate(p, "name", d.Name)
		}
		validateDevice(&c, d, perDevice, p)
	}
	atMost(&c, path, "sharedCounters", len(spec.SharedCounters), resourcev1.ResourceSliceMaxCounterSets)
	var sets check.Unique[string]
	for i := range spec.SharedCounters {
		set, p := &spec.SharedCounters[i], path.Child("sharedCounters").Index(i)
		c.Name(p, "name", set.Name)
		if sets.Seen(set.Name) {
			c.Duplicate(p, "name", set.Name)
		}
		validateCounters(&c, set.Counters, p)
	}
	return c.List
}

// where are the nodes from which a device can be used.
type where struct {
	node     *string
	selector *corev1.NodeSelector
	all      *bool
}

func validateWhere(c *check.Errors, w where, perDevice bool, path *field.Path) {
	given := 0
	if w.node != nil {
		given++
		if *w.node == "" {
			c.Invalid(path, "nodeName", *w.node, "must be either unset or set to a non-empty string")
		} else {
			c.Subdomain(path, "nodeName", *w.node)
		}
	}
	if w.selector != nil {
		given++
		core.ValidateNodeSelector(c, w.selector, path.Child("nodeSelector"))
		if len(w.selector.NodeSelectorTerms) != 1 {
			// There is one selector to a slice, so that it can go into a pod's.
			c.Invalid(path.Child("nodeSelector"), "nodeSelectorTerms", w.selector.NodeSelectorTerms, "must have exactly one node selector term")
		}
	}
	if w.all != nil {
		given++
		if !*w.all {
			c.Invalid(path, "allNodes", *w.all, "must be either unset or set to true")
		}
	}
	if perDevice {
		given++
	}
	const detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch {
	case given == 0:
		c.Required(path, "", detail)
	case given > 1:
		c.Invalid(path, "", field.OmitValueType{}, detail+", but multiple fields are set")
	}
}

func validateDevice(c *check.Errors, d *resourcev1.Device, perDevice bool, path *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		p := path.Child("attributes").Key(string(name))
		validateQualified(c, string(name), p)
		validateAttribute(c, d.Attributes[name], p)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		validateQualified(c, string(name), path.Child("capacity").Key(string(name)))
	}
	if n, max := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > max {
		c.Invalid(path, "", n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", max))
	}
	atMost(c, path, "taints", len(d.Taints), resourcev1.DeviceTaintsMaxLength)
	for i := range d.Taints {
		validateTaint(c, &d.Taints[i], path.Child("taints").Index(i))
	}
	atMost(c, path, "consumesCounters", len(d.ConsumesCounters), resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	var sets check.Unique[string]
	for i, use := range d.ConsumesCounters {
		p := path.Child("consumesCounters").Index(i)
		c.Name(p, "counterSet", use.CounterSet)
		if sets.Seen(use.CounterSet) {
			c.Duplicate(p, "counterSet", use.CounterSet)
		}
		validateCounters(c, use.Counters, p)
	}
	switch {
	case perDevice:
		validateWhere(c, where{d.NodeName, d.NodeSelector, d.AllNodes}, false, path)
	case d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil:
		c.Invalid(path, "", field.OmitValueType{}, "`nodeName`, `nodeSelector` and `allNodes` can only be specified when `perDeviceNodeSelection` is set to true")
	}
	atMost(c, path, "bindingConditions", len(d.BindingConditions), resourcev1.BindingConditionsMaxSize)
	atMost(c, path, "bindingFailureConditions", len(d.BindingFailureConditions), resourcev1.BindingFailureConditionsMaxSize)
}

// validateQualified wants a name that may have a domain before it.
func validateQualified(c *check.Errors, name string, path *field.Path) {
	domain, id, ok := strings.Cut(name, "/")
	switch {
	case name == "":
		c.Required(path, "", "name required")
	case ok:
		validateNameParts(c, name, domain, id, path, "")
	default:
		validateID(c, name, path, "")
	}
}

func validateAttribute(c *check.Errors, a resourcev1.DeviceAttribute, path *field.Path) {
	given := 0
	for _, there := range [...]bool{
		a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		c.Required(path, "", "exactly one value must be specified")
	case given > 1:
		c.Invalid(path, "", a, "exactly one value must be specified")
	}
	for _, s := range [...]struct {
		name  string
		value *string
	}{{"string", a.StringValue}, {"version", a.VersionValue}} {
		if s.value != nil && len(*s.value) > resourcev1.DeviceAttributeMaxValueLength {
			c.TooLong(path, s.name, resourcev1.DeviceAttributeMaxValueLength)
		}
	}
	if v := a.VersionValue; v != nil && !semver(*v) {
		c.Invalid(path, "version", *v, "must be a string compatible with semver.org spec 2.0.0")
	}
}

var semantic = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
})

func semver(v string) bool { return semantic().MatchString(v) }

func validateCounters(c *check.Errors, counters map[string]resourcev1.Counter, path *field.Path) {
	if len(counters) == 0 {
		c.Required(path, "counters", "")
	}
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		c.Label(path.Child("counters").Key(name), "", name)
	}
}

func validateTaint(c *check.Errors, t *resourcev1.DeviceTaint, path *field.Path) {
	c.Qualified(path, "key", t.Key)
	if t.Value != "" {
		c.Text(path, "value", t.Value, validation.IsValidLabelValue(t.Value))
	}
	check.OneOf(c, path, "effect", t.Effect, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
}

func validateSliceUpdate(s, old *resourcev1.ResourceSlice) field.ErrorList {
	c := check.Errors{List: validateSlice(s)}
	path := field.NewPath("spec")
	if s.Spec.Driver != old.Spec.Driver {
		c.Immutable(path, "driver", s.Spec.Driver)
	}
	if s.Spec.Pool.Name != old.Spec.Pool.Name {
		c.Immutable(path.Child("pool"), "name", s.Spec.Pool.Name)
	}
	if !apiequality.Semantic.DeepEqual(s.Spec.NodeName, old.Spec.NodeName) {
		c.Immutable(path, "nodeName", s.Spec.NodeName)
	}
	return c.List
}
