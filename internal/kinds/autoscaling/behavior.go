package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// behavior is how upstream writes v2's behavior into its annotation: with the
// names of its internal type's fields, in capitals. Reading is blind to case.
type behavior struct {
	ScaleUp   *rules
	ScaleDown *rules
}

type rules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []rule
	Tolerance                  *resource.Quantity
}

type rule struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorFromHub(in *autoscalingv2.HorizontalPodAutoscalerBehavior) *behavior {
	if in == nil {
		return nil
	}
	return &behavior{ScaleUp: rulesFromHub(in.ScaleUp), ScaleDown: rulesFromHub(in.ScaleDown)}
}

func rulesFromHub(in *autoscalingv2.HPAScalingRules) *rules {
	if in == nil {
		return nil
	}
	out := &rules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance}
	for _, p := range in.Policies {
		out.Policies = append(out.Policies, rule(p))
	}
	return out
}

func behaviorToHub(in behavior) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesToHub(in.ScaleUp), ScaleDown: rulesToHub(in.ScaleDown)}
}

func rulesToHub(in *rules) *autoscalingv2.HPAScalingRules {
	if in == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance}
	for _, p := range in.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}
