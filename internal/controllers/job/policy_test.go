package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestIndexes(t *testing.T) {
	rows := []struct {
		text  string
		limit int
		with  []int
		want  string
		total int
	}{
		{"", 10, nil, "", 0},
		{"1,3-5,7", 10, nil, "1,3-5,7", 5},
		{"1,3-5,7", 5, nil, "1,3,4", 3},
		{"1,3", 10, []int{2}, "1-3", 3},
		{"", 10, []int{5, 4}, "4,5", 2},
		{"0-3", 10, []int{2, 9, 3}, "0-3,9", 5},
	}
	for _, row := range rows {
		got := parseIndexes(row.text, row.limit).with(row.with)
		if got.String() != row.want || got.total() != row.total {
			t.Errorf("%q and %v below %d: %s (%d), want %s (%d)", row.text, row.with, row.limit, got, got.total(), row.want, row.total)
		}
	}
	s := parseIndexes("1,3-5", 10)
	for i, want := range []bool{false, true, false, true, true, true, false} {
		if s.has(i) != want {
			t.Errorf("has %d: %t", i, !want)
		}
	}
	if n := parseIndexes("0-4,8", 10).common(parseIndexes("2-8", 10)); n != 4 {
		t.Errorf("%d are in both, want 4", n)
	}
}

func TestJudge(t *testing.T) {
	exits := func(op batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) *batchv1.PodFailurePolicyOnExitCodesRequirement {
		return &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: op, Values: codes}
	}
	policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
		{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpIn, 42)},
		{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpIn, 3)},
		{Action: batchv1.PodFailurePolicyActionCount, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpNotIn, 9)},
	}}
	disrupted := func(p *corev1.Pod) {
		exited(42, 0)(p)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	}
	rows := []struct {
		name string
		edit func(*corev1.Pod)
		want judgement
	}{
		{"disrupted", disrupted, judgement{action: batchv1.PodFailurePolicyActionIgnore}},
		{"42", exited(42, 0), judgement{true, batchv1.PodFailurePolicyActionFailJob, "Container c for pod default/42 failed with exit code 42 matching FailJob rule at index 1"}},
		{"3", exited(3, 0), judgement{counted: true, action: batchv1.PodFailurePolicyActionFailIndex}},
		{"5", exited(5, 0), judgement{counted: true, action: batchv1.PodFailurePolicyActionCount}},
		{"9", exited(9, 0), judgement{counted: true}},
		{"0", exited(0, 0), judgement{counted: true}},
	}
	for _, row := range rows {
		if got := judge(policy, pod(row.name, row.edit)); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
	withPolicy := func(j *batchv1.Job) { j.Spec.PodFailurePolicy = policy; j.Spec.BackoffLimit = new(int32(0)) }
	if got, want := tell(plan(in(newJob(1, 1, withPolicy), pod("a", exited(42, 0))))), "status 0 0 uncounted [] [a] FailureTarget=PodFailurePolicy"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := tell(plan(in(newJob(1, 1, withPolicy), pod("a", disrupted)))), "free [a]"; got != want {
		t.Errorf("an ignored failure: %s, want %s", got, want)
	}
}

func TestSuccessPolicy(t *testing.T) {
	rule := func(indexes string, count int32) batchv1.SuccessPolicyRule {
		r := batchv1.SuccessPolicyRule{}
		if indexes != "" {
			r.SucceededIndexes = &indexes
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	rows := []struct {
		rule batchv1.SuccessPolicyRule
		done string
		want bool
	}{
		{rule("0,2", 0), "0-2", true},
		{rule("0,2", 0), "0,1", false},
		{rule("0-4", 2), "1,4", true},
		{rule("0-4", 2), "4,6-8", false},
		{rule("", 3), "5-7", true},
		{rule("", 3), "5,6", false},
		{rule("", 1), "", false},
	}
	for _, row := range rows {
		policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule("9", 0), row.rule}}
		message, got := succeeds(policy, 10, parseIndexes(row.done, 10))
		if got != row.want || got && message != "Matched rules at index 1" {
			t.Errorf("%+v with %s: %t, %q", row.rule, row.done, got, message)
		}
	}
	j := newJob(2, 3, indexed)
	j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule("0", 0)}}
	if got, want := tell(plan(in(j, pod("a", index(0, 0), succeeded), pod("b", index(1, 0))))), "status 1 0 indexes 0 SuccessCriteriaMet=SuccessPolicy"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
