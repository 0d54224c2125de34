package all

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	jobTemplate = `template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}`
	jobMeta     = `metadata: {name: j, uid: u}, `
)

// madeJob is what a job with that spec is once it was created.
func madeJob(spec, status string) string {
	return `{` + jobMeta + `spec: {selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}},
		template: {metadata: {labels: {controller-uid: u, job-name: j, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: j}},
			spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}, ` + spec + `}, status: {` + status + `}}`
}

func TestJobRules(t *testing.T) {
	const started = `startTime: "2026-01-01T00:00:00Z"`
	runRules(t, []ruleCase{
		{name: "valid", kind: "Job", obj: `{` + jobMeta + `spec: {` + jobTemplate + `}}`},
		{name: "nothing", kind: "Job", obj: `{` + jobMeta + `}`, want: `spec.template.spec.containers: Required value
spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`},
		{name: "label taken", kind: "Job", obj: `{` + jobMeta + `spec: {template: {metadata: {labels: {job-name: k}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`,
			want: `spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"k"}: must be 'j'`},
		{name: "selector of another", kind: "Job", obj: `{` + jobMeta + `spec: {selector: {matchLabels: {a: b}}, ` + jobTemplate + `}}`,
			want: "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated\n" +
				"spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"u\",\"job-name\":\"j\"}: `selector` does not match template `labels`"},
		{name: "manual selector", kind: "Job", obj: `{` + jobMeta + `spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}}}}`},
		{name: "manual without selector", kind: "Job", obj: `{` + jobMeta + `spec: {manualSelector: true, ` + jobTemplate + `}}`, want: "spec.selector: Required value\nspec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"},
		{name: "negative", kind: "Job", obj: `{` + jobMeta + `spec: {parallelism: -1, completions: -2, activeDeadlineSeconds: -3, backoffLimit: -4, ttlSecondsAfterFinished: -5, ` + jobTemplate + `}}`,
			want: `spec.parallelism: Invalid value: -1: must be greater than or equal to 0
spec.completions: Invalid value: -2: must be greater than or equal to 0
spec.activeDeadlineSeconds: Invalid value: -3: must be greater than or equal to 0
spec.backoffLimit: Invalid value: -4: must be greater than or equal to 0
spec.ttlSecondsAfterFinished: Invalid value: -5: must be greater than or equal to 0`},
		{name: "not indexed", kind: "Job", obj: `{` + jobMeta + `spec: {maxFailedIndexes: 1, successPolicy: {rules: []}, completionMode: NonIndexed, ` + jobTemplate + `}}`,
			want: `spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified
spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode
spec.successPolicy: Invalid value: {"rules":[]}: requires indexed completion mode`},
		{name: "mode", kind: "Job", obj: `{` + jobMeta + `spec: {completionMode: x, ` + jobTemplate + `}}`, want: `spec.completionMode: Unsupported value: "x": supported values: "NonIndexed", "Indexed"`},
		{name: "indexed", kind: "Job", obj: `{` + jobMeta + `spec: {completionMode: Indexed, parallelism: 100001, backoffLimitPerIndex: 1, maxFailedIndexes: 100001, ` + jobTemplate + `}}`,
			want: `spec.completions: Required value: when completion mode is Indexed
spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed
spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000`},
		{name: "many indexes", kind: "Job", obj: `{` + jobMeta + `spec: {completionMode: Indexed, completions: 200000, parallelism: 20000, backoffLimitPerIndex: 1, ` + jobTemplate + `}}`,
			want: `spec.maxFailedIndexes: Required value: must be specified when completions is above 100000
spec.parallelism: Invalid value: 20000: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`},
		{name: "managed by", kind: "Job", obj: `{` + jobMeta + `spec: {managedBy: x, ` + jobTemplate + `}}`, want: `spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")`},
		{name: "replacement", kind: "Job", obj: `{` + jobMeta + `spec: {podReplacementPolicy: x, ` + jobTemplate + `}}`, want: `spec.podReplacementPolicy: Unsupported value: "x": supported values: "Failed", "TerminatingOrFailed"`},
		{name: "failure policy", kind: "Job", obj: `{` + jobMeta + `spec: {podReplacementPolicy: TerminatingOrFailed, podFailurePolicy: {rules: [{}, {action: FailIndex, onExitCodes: {operator: In, containerName: d, values: [3, 0, 3]}, onPodConditions: [{type: "", status: x}]}]},
			template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}}}}`,
			want: `spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]
spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
spec.podFailurePolicy.rules[1].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set
spec.podFailurePolicy.rules[1].onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer names in the pod template
spec.podFailurePolicy.rules[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator
spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 3
spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: [3,0,3]: must be ordered
spec.podFailurePolicy.rules[1].onPodConditions[0].type: Invalid value: "": name part must be non-empty
spec.podFailurePolicy.rules[1].onPodConditions[0].type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
spec.podFailurePolicy.rules[1].onPodConditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown"
spec.podFailurePolicy.rules[1]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported
spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"
spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified`},
		{name: "success policy", kind: "Job", obj: `{` + jobMeta + `spec: {completionMode: Indexed, completions: 5, successPolicy: {rules: [{}, {succeededIndexes: "0,2-3", succeededCount: 4}, {succeededIndexes: "3-1"}, {succeededIndexes: "1-2-3"}, {succeededIndexes: "1,7"}, {succeededCount: 6}]}, ` + jobTemplate + `}}`,
			want: `spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified
spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)
spec.successPolicy.rules[2].succeededIndexes: Invalid value: "3-1": error parsing succeededIndexes: non-increasing order, previous: 3, current: 1
spec.successPolicy.rules[3].succeededIndexes: Invalid value: "1-2-3": error parsing succeededIndexes: the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'
spec.successPolicy.rules[4].succeededIndexes: Invalid value: "1,7": error parsing succeededIndexes: too large index: "7"
spec.successPolicy.rules[5].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)`},

		{name: "scaled", kind: "Job", old: madeJob(`completions: 3`, ``), obj: madeJob(`completions: 3, parallelism: 7, backoffLimit: 2`, ``)},
		{name: "completions changed", kind: "Job", old: madeJob(`completions: 3`, ``), obj: madeJob(`completions: 4`, ``), want: `spec.completions: Invalid value: 4: field is immutable`},
		{name: "indexes added", kind: "Job", old: madeJob(`completionMode: Indexed, completions: 3, parallelism: 3`, ``), obj: madeJob(`completionMode: Indexed, completions: 4, parallelism: 3`, ``),
			want: `spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism`},
		{name: "indexes added in tandem", kind: "Job", old: madeJob(`completionMode: Indexed, completions: 3, parallelism: 3`, ``), obj: madeJob(`completionMode: Indexed, completions: 4, parallelism: 4`, ``)},
		{name: "mode changed", kind: "Job", old: madeJob(`completions: 3`, ``), obj: madeJob(`completions: 3, completionMode: Indexed, managedBy: a.example/b`, ``),
			want: "spec.completionMode: Invalid value: \"Indexed\": field is immutable\nspec.managedBy: Invalid value: \"a.example/b\": field is immutable"},

		{name: "runs", kind: "Job/status", old: madeJob(`completions: 1`, ``), obj: madeJob(`completions: 1`, started+`, active: 1, ready: 1`)},
		{name: "negative", kind: "Job/status", old: madeJob(`completions: 1`, ``), obj: madeJob(`completions: 1`, `active: -1, ready: 1, uncountedTerminatedPods: {succeeded: [a, ""], failed: [a]}`),
			want: `status.active: Invalid value: -1: must be greater than or equal to 0
status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty
status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"
status.ready: Invalid value: 1: cannot set more ready pods than active`},
		{name: "complete", kind: "Job/status", old: madeJob(`completions: 1`, started),
			obj: madeJob(`completions: 1`, started+`, succeeded: 1, completionTime: "2026-01-01T00:00:01Z", conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]`)},
		{name: "complete at once", kind: "Job/status", old: madeJob(`completions: 1`, ``), obj: madeJob(`completions: 1`, `active: 1, terminating: 1, conditions: [{type: Complete, status: "True"}]`),
			want: `status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition
status.completionTime: Required value: completionTime is required for Complete jobs
status.active: Invalid value: 1: active>0 is invalid for finished job
status.startTime: Required value: startTime is required for finished job
status.terminating: Invalid value: 1: terminating>0 is invalid for finished job`},
		{name: "failed", kind: "Job/status", old: madeJob(`completions: 1`, started), obj: madeJob(`completions: 1`, started+`, conditions: [{type: Failed, status: "True"}], completionTime: "2025-01-01T00:00:00Z"`),
			want: `status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition
status.completionTime: Invalid value: "2025-01-01T00:00:00Z": cannot set completionTime when there is no Complete=True condition
status.completionTime: Invalid value: "2025-01-01T00:00:00Z": completionTime cannot be set before startTime`},
		{name: "taken back", kind: "Job/status", old: madeJob(`completions: 2`, started+`, failed: 2, succeeded: 1, conditions: [{type: FailureTarget, status: "True"}]`), obj: madeJob(`completions: 2`, `failed: 1`),
			want: `status.startTime: Required value: startTime cannot be removed for unsuspended job
status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition
status.failed: Invalid value: 1: cannot decrease the failed counter
status.succeeded: Invalid value: 0: cannot decrease the succeeded counter`},
		{name: "indexes", kind: "Job/status", old: madeJob(`completionMode: Indexed, completions: 9, backoffLimitPerIndex: 1`, ``), obj: madeJob(`completionMode: Indexed, completions: 9, backoffLimitPerIndex: 1`, `completedIndexes: "0-2,5", failedIndexes: "3-5"`),
			want: `status.failedIndexes: Invalid value: "3-5": failedIndexes and completedIndexes overlap at index: 5`},
		{name: "indexes of none", kind: "Job/status", old: madeJob(`completions: 9`, ``), obj: madeJob(`completions: 9`, `completedIndexes: "9", failedIndexes: "1"`),
			want: `status.completedIndexes: Invalid value: "9": error parsing completedIndexes: too large index: "9"
status.completedIndexes: Invalid value: "9": cannot set non-empty completedIndexes when non-indexed completion mode
status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null`},
	})
}

// TestSuspendedJobMoves: a queue may say where a job runs before it does.
func TestSuspendedJobMoves(t *testing.T) {
	k := kindOf(t, "Job")
	for _, tc := range []struct {
		suspend string
		refused int
	}{{"true", 0}, {"false", 1}} {
		old := read(t, k, madeJob(`completions: 1, suspend: `+tc.suspend, ``))
		obj := read(t, k, `{`+jobMeta+`spec: {selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, completions: 1, suspend: false,
			template: {metadata: {labels: {controller-uid: u, job-name: j, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: j, a: b}},
				spec: {restartPolicy: Never, nodeSelector: {a: b}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}}}`)
		if errs := k.ValidateUpdate(context.Background(), obj, old); len(errs) != tc.refused {
			t.Errorf("suspend: %s: %v", tc.suspend, errs)
		}
	}
}

func TestCronJobRules(t *testing.T) {
	const rest = `jobTemplate: {spec: {` + jobTemplate + `}}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "CronJob", obj: `{spec: {schedule: "*/5 * * * *", timeZone: Europe/Berlin, ` + rest + `}}`},
		{name: "macro", kind: "CronJob", obj: `{spec: {schedule: "@hourly", ` + rest + `}}`},
		{name: "nothing", kind: "CronJob", obj: `{spec: {` + rest + `}}`, want: `spec.schedule: Required value`},
		{name: "schedule", kind: "CronJob", obj: `{spec: {schedule: "* * *", ` + rest + `}}`, want: `spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]`},
		{name: "zone within", kind: "CronJob", obj: `{spec: {schedule: "TZ=UTC * * * * *", ` + rest + `}}`,
			want: `spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`},
		{name: "zone within of old", kind: "CronJob", old: `{spec: {schedule: "TZ=UTC * * * * *", ` + rest + `}}`, obj: `{spec: {schedule: "TZ=UTC 0 * * * *", ` + rest + `}}`},
		{name: "zone", kind: "CronJob", obj: `{spec: {schedule: "* * * * *", timeZone: ../etc, ` + rest + `}}`, want: `spec.timeZone: Invalid value: "../etc": unknown time zone ../etc`},
		{name: "no zone", kind: "CronJob", obj: `{spec: {schedule: "* * * * *", timeZone: Nowhere, ` + rest + `}}`, want: `spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere`},
		{name: "own zone", kind: "CronJob", obj: `{spec: {schedule: "* * * * *", timeZone: Local, ` + rest + `}}`,
			want: `spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones`},
		{name: "rest", kind: "CronJob", obj: `{spec: {schedule: "* * * * *", startingDeadlineSeconds: -1, concurrencyPolicy: x, successfulJobsHistoryLimit: -1, failedJobsHistoryLimit: -2,
			jobTemplate: {spec: {selector: {}, manualSelector: true, ` + jobTemplate + `}}}}`,
			want: "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0\n" +
				"spec.concurrencyPolicy: Unsupported value: \"x\": supported values: \"Allow\", \"Forbid\", \"Replace\"\n" +
				"spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated\n" +
				"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"\n" +
				"spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0\n" +
				"spec.failedJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0"},
		{name: "name", kind: "CronJob", obj: `{metadata: {name: a23456789-123456789-123456789-123456789-123456789-123}, spec: {schedule: "* * * * *", ` + rest + `}}`,
			want: `metadata.name: Invalid value: "a23456789-123456789-123456789-123456789-123456789-123": must be no more than 52 characters`},
	})
}

func TestWorkloadWarnings(t *testing.T) {
	for _, tc := range []struct{ kind, obj, want string }{
		{"Deployment", `{metadata: {name: a.b}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}`, workloadName},
		{"CronJob", `{spec: {schedule: "TZ=UTC * * * * *", jobTemplate: {spec: {` + jobTemplate + `}}}}`,
			"cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones for more details"},
		{"StatefulSet", `{spec: {revisionHistoryLimit: -1}}`, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"},
	} {
		k := kindOf(t, tc.kind)
		if diff := cmp.Diff([]string{tc.want}, k.Warnings(context.Background(), read(t, k, tc.obj), nil)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.kind, tc.obj, diff)
		}
	}
}

const workloadName = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"

func TestAppsStatusRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "status", kind: "StatefulSet/status", old: `{status: {collisionCount: 2}}`, obj: `{status: {replicas: 1, readyReplicas: 2, currentReplicas: 2, updatedReplicas: -1, availableReplicas: 3, collisionCount: 1}}`,
			want: `status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0
status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas
status.collisionCount: Invalid value: 1: cannot be decremented`},
		{name: "status", kind: "DaemonSet/status", old: `{}`, obj: `{status: {currentNumberScheduled: -1, numberMisscheduled: -2, desiredNumberScheduled: -3, numberReady: -4, numberUnavailable: -5}}`,
			want: `status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0
status.numberMisscheduled: Invalid value: -2: must be greater than or equal to 0
status.desiredNumberScheduled: Invalid value: -3: must be greater than or equal to 0
status.numberReady: Invalid value: -4: must be greater than or equal to 0
status.numberUnavailable: Invalid value: -5: must be greater than or equal to 0`},
		{name: "no data", kind: "ControllerRevision", obj: `{revision: -1}`, want: "revision: Invalid value: -1: must be greater than or equal to 0\ndata: Required value: data is mandatory"},
		{name: "valid", kind: "ControllerRevision", obj: `{revision: 1, data: {a: b}}`},
		{name: "revised", kind: "ControllerRevision", old: `{revision: 1, data: {a: b}}`, obj: `{revision: 2, data: {a: b}}`},
		{name: "data changed", kind: "ControllerRevision", old: `{revision: 1, data: {a: b}}`, obj: `{revision: 2, data: {a: c}}`, want: `data: Invalid value: {"a":"c"}: field is immutable`},
	})
}
