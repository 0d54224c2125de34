package batch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// The rules by which a job fails or succeeds before its time.

const (
	maxRules          = 20
	maxExitCodes      = 255
	maxConditions     = 20
	maxSucceededText  = 64 * 1024
	validActions      = `valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`
	validOperators    = `valid values: ["In" "NotIn"]`
	validStatuses     = `valid values: ["False" "True" "Unknown"]`
	eitherCodesOrWhat = "specifying both OnExitCodes and OnPodConditions is not supported"
	codesOrWhat       = "specifying one of OnExitCodes and OnPodConditions is required"
)

func validateFailurePolicy(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	if spec.PodFailurePolicy == nil {
		return
	}
	if n := len(spec.PodFailurePolicy.Rules); n > maxRules {
		c.TooMany(path, "", n, maxRules)
	}
	for i := range spec.PodFailurePolicy.Rules {
		r, p := &spec.PodFailurePolicy.Rules[i], path.Index(i)
		switch r.Action {
		case "":
			c.Required(p, "action", validActions)
		case batchv1.PodFailurePolicyActionFailIndex:
			if spec.BackoffLimitPerIndex == nil {
				c.Invalid(p, "action", r.Action, "requires the backoffLimitPerIndex to be set")
			}
		default:
			check.Among(c, p, "action", r.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
		}
		if r.OnExitCodes != nil {
			validateExitCodes(c, r.OnExitCodes, &spec.Template.Spec, p.Child("onExitCodes"))
		}
		validateConditionPatterns(c, r.OnPodConditions, p.Child("onPodConditions"))
		switch codes, what := r.OnExitCodes != nil, len(r.OnPodConditions) > 0; {
		case codes && what:
			c.Invalid(p, "", field.OmitValueType{}, eitherCodesOrWhat)
		case !codes && !what:
			c.Invalid(p, "", field.OmitValueType{}, codesOrWhat)
		}
	}
}

func validateConditionPatterns(c *check.Errors, list []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) {
	if len(list) > maxConditions {
		c.TooMany(path, "", len(list), maxConditions)
	}
	for i, pattern := range list {
		p := path.Index(i)
		c.Qualified(p, "type", string(pattern.Type))
		if pattern.Status == "" {
			c.Required(p, "status", validStatuses)
		} else {
			check.Among(c, p, "status", pattern.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
	}
}

func validateExitCodes(c *check.Errors, r *batchv1.PodFailurePolicyOnExitCodesRequirement, spec *corev1.PodSpec, path *field.Path) {
	if r.Operator == "" {
		c.Required(path, "operator", validOperators)
	} else {
		check.Among(c, path, "operator", r.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	}
	if r.ContainerName != nil && !hasContainer(spec, *r.ContainerName) {
		c.Invalid(path, "containerName", *r.ContainerName, "must be one of the container or initContainer names in the pod template")
	}
	if n := len(r.Values); n == 0 {
		c.Invalid(path, "values", r.Values, "at least one value is required")
	} else if n > maxExitCodes {
		c.TooMany(path, "values", n, maxExitCodes)
	}
	ordered := true
	var seen check.Unique[int32]
	for i, code := range r.Values {
		p := path.Child("values").Index(i)
		if code == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			c.Invalid(p, "", code, "must not be 0 for the In operator")
		}
		if seen.Seen(code) {
			c.Duplicate(p, "", code)
		}
		ordered = ordered && (i == 0 || r.Values[i-1] <= code)
	}
	if !ordered {
		c.Invalid(path, "values", r.Values, "must be ordered")
	}
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	for _, list := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return true
			}
		}
	}
	return false
}

func validateSuccessPolicy(c *check.Errors, spec *batchv1.JobSpec, path *field.Path) {
	var completions int32 // a job without them was told of already
	if spec.Completions != nil {
		completions = *spec.Completions
	}
	switch n := len(spec.SuccessPolicy.Rules); {
	case n == 0:
		c.Required(path, "", "at least one rules must be specified when the successPolicy is specified")
	case n > maxRules:
		c.TooMany(path, "", n, maxRules)
	}
	for i := range spec.SuccessPolicy.Rules {
		r, p := &spec.SuccessPolicy.Rules[i], path.Index(i)
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			c.Required(p, "", "at least one of succeededCount or succeededIndexes must be specified")
		}
		var listed int32
		if text := r.SucceededIndexes; text != nil {
			if len(*text) > maxSucceededText {
				c.TooLong(p, "succeededIndexes", maxSucceededText)
			}
			spans, err := parseIndexes(*text, completions)
			if err != nil {
				c.Invalid(p, "succeededIndexes", *text, "error parsing succeededIndexes: "+err.Error())
			}
			for _, s := range spans {
				listed += s.to - s.from + 1
			}
		}
		if n := r.SucceededCount; n != nil {
			c.NonNegative(p, "succeededCount", int64(*n))
			if *n > completions {
				c.Invalid(p, "succeededCount", *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions))
			}
			if r.SucceededIndexes != nil && *n > listed {
				c.Invalid(p, "succeededCount", *n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", listed))
			}
		}
	}
}

// span is a run of indexes, both ends included.
type span struct{ from, to int32 }

// parseIndexes reads "1,3-5,7"; all indexes must be below completions and
// rise. What was read before an error is not returned.
func parseIndexes(text string, completions int32) ([]span, error) {
	if text == "" {
		return nil, nil
	}
	var out []span
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(part, completions)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].to >= s.from {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", out[n-1].to, s.from)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseSpan(text string, completions int32) (span, error) {
	ends := strings.Split(text, "-")
	if len(ends) > 2 {
		return span{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var numbers [2]int32
	for i, end := range ends {
		n, err := strconv.Atoi(end)
		if err != nil {
			return span{}, fmt.Errorf("cannot convert string to integer for index: %q", end)
		}
		if n >= int(completions) {
			return span{}, fmt.Errorf("too large index: %q", end)
		}
		numbers[i] = int32(n)
	}
	if len(ends) == 1 {
		return span{numbers[0], numbers[0]}, nil
	}
	if numbers[0] >= numbers[1] {
		return span{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", numbers[0], numbers[1])
	}
	return span{numbers[0], numbers[1]}, nil
}

// disjoint says which index is in both lists, which must be in order.
func disjoint(a, b []span) error {
	for len(a) > 0 && len(b) > 0 {
		if a[0].from <= b[0].to && b[0].from <= a[0].to {
			return errors.New("failedIndexes and completedIndexes overlap at index: " + strconv.Itoa(int(max(a[0].from, b[0].from))))
		}
		if a[0].from <= b[0].from {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return nil
}
