package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func priorityLevelConfiguration() *kinds.Kind {
	split := strategy.Counted[flowcontrolv1.PriorityLevelConfiguration]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "prioritylevelconfigurations"}, Kind: "PriorityLevelConfiguration", Singular: "prioritylevelconfiguration",
		StoragePrefix:            "/registry/prioritylevelconfigurations/",
		Versions:                 []kinds.Version{strategy.Version[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfigurationList](v1, defaultPriorityLevel)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateLevel),
		ValidateUpdate:           strategy.ValidateUpdate(func(p, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList { return validateLevel(p) }),
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Type", "string", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"], func(o *flowcontrolv1.PriorityLevelConfiguration) any { return string(o.Spec.Type) }),
			strategy.Column("NominalConcurrencyShares", "string", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"], func(o *flowcontrolv1.PriorityLevelConfiguration) any { return shares(o) }),
			strategy.Column("Queues", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["queues"], func(o *flowcontrolv1.PriorityLevelConfiguration) any {
				return queuing(o, func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues })
			}),
			strategy.Column("HandSize", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["handSize"], func(o *flowcontrolv1.PriorityLevelConfiguration) any {
				return queuing(o, func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize })
			}),
			strategy.Column("QueueLengthLimit", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["queueLengthLimit"], func(o *flowcontrolv1.PriorityLevelConfiguration) any {
				return queuing(o, func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit })
			}),
			strategy.Age(),
		},
	}
}

func defaultPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		if e.NominalConcurrencyShares == nil {
			e.NominalConcurrencyShares = new(int32(0))
		}
		if e.LendablePercent == nil {
			e.LendablePercent = new(int32(0))
		}
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	if l.NominalConcurrencyShares == nil {
		l.NominalConcurrencyShares = new(int32(30))
	}
	if l.LendablePercent == nil {
		l.LendablePercent = new(int32(0))
	}
	if q := l.LimitResponse.Queuing; q != nil {
		if q.Queues == 0 {
			q.Queues = 64
		}
		if q.HandSize == 0 {
			q.HandSize = 8
		}
		if q.QueueLengthLimit == 0 {
			q.QueueLengthLimit = 50
		}
	}
}

func shares(p *flowcontrolv1.PriorityLevelConfiguration) any {
	if p.Spec.Limited == nil || p.Spec.Limited.NominalConcurrencyShares == nil {
		return "<none>"
	}
	return int64(*p.Spec.Limited.NominalConcurrencyShares)
}

func queuing(p *flowcontrolv1.PriorityLevelConfiguration, number func(*flowcontrolv1.QueuingConfiguration) int32) any {
	if p.Spec.Limited == nil || p.Spec.Limited.LimitResponse.Queuing == nil {
		return "<none>"
	}
	return int64(number(p.Spec.Limited.LimitResponse.Queuing))
}

const (
	maxQueues = 10_000_000
	maxHand   = 100
)

func validateLevel(p *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var c check.Errors
	spec, path := &p.Spec, field.NewPath("spec")
	if exempted := p.Name == exempt; exempted != (spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) && spec.Type != "" {
		c.Invalid(path, "type", spec.Type, "type must be 'Exempt' if and only if name is 'exempt'")
	}
	switch spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			c.Forbidden(path, "limited", "must be nil if the type is not Limited")
		}
		if e := spec.Exempt; e != nil {
			validateShares(&c, e.NominalConcurrencyShares, e.LendablePercent, path.Child("exempt"))
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			c.Forbidden(path, "exempt", "must be nil if the type is Limited")
		}
		if spec.Limited == nil {
			c.Required(path, "limited", "must not be empty when type is Limited")
		} else {
			validateLimited(&c, spec.Limited, path.Child("limited"))
		}
	default:
		check.Among(&c, path, "type", spec.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)
	}
	return c.List
}

func validateShares(c *check.Errors, nominal, lendable *int32, path *field.Path) {
	if nominal != nil && *nominal < 0 {
		c.Invalid(path, "nominalConcurrencyShares", *nominal, "must be a non-negative integer")
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		c.Invalid(path, "lendablePercent", *lendable, "must be between 0 and 100, inclusive")
	}
}

func validateLimited(c *check.Errors, l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) {
	validateShares(c, l.NominalConcurrencyShares, l.LendablePercent, path)
	if n := l.BorrowingLimitPercent; n != nil && *n < 0 {
		c.Invalid(path, "borrowingLimitPercent", *n, "if specified, must be a non-negative integer")
	}
	r, p := &l.LimitResponse, path.Child("limitResponse")
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			c.Forbidden(p, "queuing", "must be nil if limited.limitResponse.type is not Limited")
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			c.Required(p, "queuing", "must not be empty if limited.limitResponse.type is Limited")
		} else {
			validateQueuing(c, r.Queuing, p.Child("queuing"))
		}
	default:
		check.Among(c, p, "type", r.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	}
}

func validateQueuing(c *check.Errors, q *flowcontrolv1.QueuingConfiguration, path *field.Path) {
	if q.QueueLengthLimit <= 0 {
		c.Invalid(path, "queueLengthLimit", q.QueueLengthLimit, "must be positive")
	}
	switch {
	case q.Queues <= 0:
		c.Invalid(path, "queues", q.Queues, "must be positive")
	case q.Queues > maxQueues:
		c.Invalid(path, "queues", q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	switch {
	case q.HandSize <= 0:
		c.Invalid(path, "handSize", q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		c.Invalid(path, "handSize", q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	case q.HandSize > maxHand:
		c.Invalid(path, "handSize", q.HandSize, fmt.Sprintf("must not be greater than %d", maxHand))
	}
}
