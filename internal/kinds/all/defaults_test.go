package all

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// podDefaults is what a template of one container becomes.
const podDefaults = `{
	containers: [{name: c, image: i, imagePullPolicy: Always, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}],
	dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30}`

// TestDefaults gives the spec that a server answers with, for what people
// write most.
func TestDefaults(t *testing.T) {
	const template = `template: {spec: {containers: [{name: c, image: i}]}}`
	const filled = `template: {metadata: {}, spec: ` + podDefaults + `}`
	for _, tc := range []struct{ kind, spec, want string }{
		{"Deployment", `{` + template + `}`, `{replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, selector: null,
			strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}, ` + filled + `}`},
		{"ReplicaSet", `{` + template + `}`, `{replicas: 1, selector: null, ` + filled + `}`},
		{"StatefulSet", `{` + template + `}`, `{replicas: 1, revisionHistoryLimit: 10, selector: null, serviceName: "", podManagementPolicy: OrderedReady,
			updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}, persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}, ` + filled + `}`},
		{"DaemonSet", `{` + template + `}`, `{revisionHistoryLimit: 10, selector: null, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}, ` + filled + `}`},
		{"Job", `{` + template + `}`, `{completions: 1, parallelism: 1, backoffLimit: 6, completionMode: NonIndexed, suspend: false, manualSelector: false, podReplacementPolicy: TerminatingOrFailed, ` + filled + `}`},
		{"CronJob", `{schedule: "* * * * *", jobTemplate: {spec: {` + template + `}}}`, `{schedule: "* * * * *", concurrencyPolicy: Allow, suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1,
			jobTemplate: {metadata: {}, spec: {` + filled + `}}}`},
		{"Service", `{ports: [{port: 80}]}`, `{type: ClusterIP, sessionAffinity: None, internalTrafficPolicy: Cluster, ports: [{port: 80, protocol: TCP, targetPort: 80}]}`},
		{"Service", `{type: NodePort, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: web}]}`,
			`{type: NodePort, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, internalTrafficPolicy: Cluster, externalTrafficPolicy: Cluster, ports: [{port: 80, protocol: TCP, targetPort: web}]}`},
		{"Service", `{type: LoadBalancer}`, `{type: LoadBalancer, sessionAffinity: None, allocateLoadBalancerNodePorts: true, internalTrafficPolicy: Cluster, externalTrafficPolicy: Cluster}`},
		{"Service", `{type: ExternalName, externalName: a.example}`, `{type: ExternalName, externalName: a.example, sessionAffinity: None}`},
		{"PersistentVolumeClaim", `{}`, `{resources: {}, volumeMode: Filesystem}`},
		{"Node", `{podCIDR: 10.0.0.0/24}`, `{podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}`},
	} {
		k := kindOf(t, tc.kind)
		data, err := json.Marshal(read(t, k, `{spec: `+tc.spec+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Spec map[string]any }
		var want map[string]any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.kind, tc.spec, diff)
		}
	}
}

func TestNamespaceLabel(t *testing.T) {
	ns := read(t, kindOf(t, "Namespace"), `{metadata: {name: a}}`)
	if got := ns.GetLabels()["kubernetes.io/metadata.name"]; got != "a" {
		t.Errorf("label %q", got)
	}
}
