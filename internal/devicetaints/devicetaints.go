// Package devicetaints tells which taints devices have: those that their driver
// publishes in ResourceSlices, and those that DeviceTaintRules add. The
// scheduler and the loop that evicts from tainted devices must agree on it.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations
//
// Everything is a pure function over shared objects; nothing is changed.
package devicetaints

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// Applies tells whether a rule is about a device.
func Applies(rule *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	s := rule.Spec.DeviceSelector
	if s == nil {
		return false // a rule without a selector is about none
	}
	return (s.Driver == nil || *s.Driver == driver) && (s.Pool == nil || *s.Pool == pool) && (s.Device == nil || *s.Device == device)
}

// Tainted is a slice with the taints of the rules at its devices: the slice
// itself when none is about them.
func Tainted(slice *resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) *resourcev1.ResourceSlice {
	out := slice
	for _, rule := range rules {
		for i := range slice.Spec.Devices {
			if !Applies(rule, slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name) {
				continue
			}
			if out == slice {
				out = slice.DeepCopy()
			}
			out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, rule.Spec.Taint)
		}
	}
	return out
}

// Tolerates tells whether one of the tolerations is about a taint, and for how
// long it tolerates it, in seconds; nil: for ever. Of several the longest
// counts.
func Tolerates(tolerations []resourcev1.DeviceToleration, taint *resourcev1.DeviceTaint) (tolerated bool, seconds *int64) {
	for i := range tolerations {
		t := &tolerations[i]
		if !matches(t, taint) {
			continue
		}
		if t.TolerationSeconds == nil {
			return true, nil
		}
		if !tolerated || *t.TolerationSeconds > *seconds {
			tolerated, seconds = true, t.TolerationSeconds
		}
	}
	return tolerated, seconds
}

func matches(t *resourcev1.DeviceToleration, taint *resourcev1.DeviceTaint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == resourcev1.DeviceTolerationOpExists {
		return true
	}
	return t.Value == taint.Value
}
