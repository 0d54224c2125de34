package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func priorityClass() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "priorityclasses"}, Kind: "PriorityClass", Singular: "priorityclass",
		ShortNames:               []string{"pc"},
		StoragePrefix:            "/registry/priorityclasses/",
		Versions:                 []kinds.Version{strategy.Version[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](v1, defaultPriorityClass)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            strategy.PrepareCreate(func(c *schedulingv1.PriorityClass) { c.Generation = 1 }),
		Validate:                 strategy.Validate(validatePriorityClass),
		ValidateUpdate:           strategy.ValidateUpdate(validatePriorityClassUpdate),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Value", "integer", schedulingv1.PriorityClass{}.SwaggerDoc()["value"], func(o *schedulingv1.PriorityClass) any { return int64(o.Value) }),
			strategy.Column("Global-Default", "boolean", schedulingv1.PriorityClass{}.SwaggerDoc()["globalDefault"], func(o *schedulingv1.PriorityClass) any { return o.GlobalDefault }),
			strategy.Age(),
			strategy.Column("PreemptionPolicy", "string", schedulingv1.PriorityClass{}.SwaggerDoc()["preemptionPolicy"], func(o *schedulingv1.PriorityClass) any {
				if o.PreemptionPolicy == nil {
					return ""
				}
				return string(*o.PreemptionPolicy)
			}),
		},
	}
}

func defaultPriorityClass(c *schedulingv1.PriorityClass) {
	if c.PreemptionPolicy == nil {
		c.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	}
}

const (
	systemPrefix = "system-"
	// highestOfUsers leaves what is above to the cluster itself.
	highestOfUsers = 1_000_000_000
)

// system are the classes that the cluster makes for itself.
var system = map[string]int32{"system-node-critical": 2*highestOfUsers + 1000, "system-cluster-critical": 2 * highestOfUsers}

func validatePriorityClass(p *schedulingv1.PriorityClass) field.ErrorList {
	var c check.Errors
	if strings.HasPrefix(p.Name, systemPrefix) {
		if why := notOfSystem(p); why != "" {
			c.Forbidden(field.NewPath("metadata", "name"), "", "priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+why)
		}
	} else if p.Value > highestOfUsers {
		c.Forbidden(field.NewPath("value"), "", fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestOfUsers))
	}
	if policy := p.PreemptionPolicy; policy != nil {
		check.OneOf(&c, field.NewPath("preemptionPolicy"), "", *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	return c.List
}

func notOfSystem(p *schedulingv1.PriorityClass) string {
	value, known := system[p.Name]
	switch {
	case !known:
		return p.Name + " is not a known system priority class"
	case p.Value != value:
		return fmt.Sprintf("value of %v PriorityClass must be %v", p.Name, value)
	case p.GlobalDefault:
		return fmt.Sprintf("globalDefault of %v PriorityClass must be %v", p.Name, false)
	}
	return ""
}

func validatePriorityClassUpdate(p, old *schedulingv1.PriorityClass) field.ErrorList {
	var c check.Errors
	if p.Value != old.Value {
		c.Forbidden(field.NewPath("value"), "", "may not be changed in an update.")
	}
	if !apiequality.Semantic.DeepEqual(p.PreemptionPolicy, old.PreemptionPolicy) {
		c.Immutable(field.NewPath("preemptionPolicy"), "", p.PreemptionPolicy)
	}
	return c.List
}
