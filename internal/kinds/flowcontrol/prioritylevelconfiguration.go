package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
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
