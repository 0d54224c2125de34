package all

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPersistentVolumeRules(t *testing.T) {
	const rest = `accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "PersistentVolume", obj: `{spec: {hostPath: {path: /x}, ` + rest + `}}`},
		{name: "CSI", kind: "PersistentVolume", obj: `{spec: {csi: {driver: d.example, volumeHandle: h}, volumeAttributesClassName: fast, ` + rest + `}}`},
		{name: "nothing", kind: "PersistentVolume", obj: `{}`,
			want: "spec.accessModes: Required value\nspec.capacity: Required value\nspec: Required value: must specify a volume type"},
		{name: "two sources", kind: "PersistentVolume", obj: `{spec: {hostPath: {path: /x}, nfs: {server: s, path: /y}, ` + rest + `}}`, want: `spec.nfs: Forbidden: may not specify more than 1 volume type`},
		{name: "capacity", kind: "PersistentVolume", obj: `{spec: {hostPath: {path: /x}, accessModes: [x, ReadWriteOncePod], capacity: {storage: 0, cpu: 1}, persistentVolumeReclaimPolicy: w, volumeMode: z, storageClassName: A}}`,
			want: `spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
spec.capacity: Unsupported value: {"cpu":"1","storage":"0"}: supported values: "storage"
spec.capacity[storage]: Invalid value: "0": must be greater than zero
spec.persistentVolumeReclaimPolicy: Unsupported value: "w": supported values: "Delete", "Recycle", "Retain"
spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
spec.volumeMode: Unsupported value: "z": supported values: "Block", "Filesystem"`},
		{name: "local", kind: "PersistentVolume", obj: `{spec: {local: {path: /a/../b}, ` + rest + `}}`,
			want: "spec.nodeAffinity: Required value: Local volume requires node affinity\nspec.local.path: Invalid value: \"/a/../b\": must not contain '..'"},
		{name: "affinity", kind: "PersistentVolume", obj: `{spec: {local: {path: /a}, nodeAffinity: {}, ` + rest + `}}`, want: `spec.nodeAffinity.required: Required value: must specify required node constraints`},
		{name: "root", kind: "PersistentVolume", obj: `{spec: {hostPath: {path: //}, persistentVolumeReclaimPolicy: Recycle, ` + rest + `}}`,
			want: `spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'`},
		{name: "CSI secrets", kind: "PersistentVolume", obj: `{spec: {csi: {driver: "", nodeStageSecretRef: {}}, ` + rest + `}}`,
			want: `spec.csi.driver: Required value
spec.csi.driver: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
spec.csi.volumeHandle: Required value
spec.csi.nodeStageSecretRef.name: Required value
spec.csi.nodeStageSecretRef.namespace: Required value`},
		{name: "attributes without CSI", kind: "PersistentVolume", obj: `{spec: {hostPath: {path: /x}, volumeAttributesClassName: "", ` + rest + `}}`,
			want: "spec.volumeAttributesClassName: Required value: an empty string is disallowed\nspec.csi: Required value: has to be specified when using volumeAttributesClassName"},
		{name: "mode changed", kind: "PersistentVolume", old: `{spec: {hostPath: {path: /x}, ` + rest + `}}`, obj: `{spec: {hostPath: {path: /x}, volumeMode: Block, ` + rest + `}}`,
			want: `spec.volumeMode: Invalid value: "Block": field is immutable`},
		{name: "claimed", kind: "PersistentVolume", old: `{spec: {hostPath: {path: /x}, ` + rest + `}}`, obj: `{spec: {hostPath: {path: /x}, claimRef: {name: a}, ` + rest + `}}`},

		{name: "valid", kind: "PersistentVolumeClaim", obj: `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
		{name: "nothing", kind: "PersistentVolumeClaim", obj: `{}`, want: "spec.accessModes: Required value: at least 1 access mode is required\nspec.resources[storage]: Required value"},
		{name: "bound", kind: "PersistentVolumeClaim", old: `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			obj: `{spec: {volumeName: v, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
		{name: "given a class", kind: "PersistentVolumeClaim", old: `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			obj: `{spec: {storageClassName: s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
		{name: "grows", kind: "PersistentVolumeClaim", old: `{status: {phase: Bound}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			obj: `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`},
		{name: "shrinks", kind: "PersistentVolumeClaim", old: `{status: {phase: Bound, capacity: {storage: 2Gi}}, spec: {volumeAttributesClassName: a, accessModes: [ReadWriteOnce], resources: {requests: {storage: 3Gi}}}}`,
			obj:  `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`,
			want: "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity\nspec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"},
		{name: "status", kind: "PersistentVolumeClaim/status", old: `{spec: {accessModes: [ReadWriteOnce]}}`, obj: `{status: {capacity: {storage: -1}, allocatedResources: {cpu: 1}, allocatedResourceStatuses: {storage: x}}}`,
			want: `status.capacity[storage]: Invalid value: -1: must be a valid resource quantity
status.allocatedResourceStatus[storage]: Unsupported value: "x": supported values: "ControllerResizeInfeasible", "ControllerResizeInProgress", "NodeResizeInfeasible", "NodeResizeInProgress", "NodeResizePending"
status.allocatedResources[cpu]: Unsupported value: "cpu": supported values: "storage"`},
	})
}

// TestVolumesStay: what is not to change is refused with a difference after
// the words, which is for people only.
func TestVolumesStay(t *testing.T) {
	for _, tc := range []struct{ kind, old, obj, field string }{
		{"PersistentVolume", `{spec: {hostPath: {path: /x}, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}}`,
			`{spec: {hostPath: {path: /y}, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}}`, "spec.persistentvolumesource"},
		{"PersistentVolumeClaim", `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			`{spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}`, "spec"},
		{"PersistentVolumeClaim", `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			`{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`, "spec"},
	} {
		_, errs := judge(t, &ruleCase{kind: tc.kind, old: tc.old, obj: tc.obj})
		if len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || errs[0].Field != tc.field {
			t.Errorf("%s: %v", tc.kind, errs)
		}
	}
}

func TestClaimSources(t *testing.T) {
	k := kindOf(t, "PersistentVolumeClaim")
	prepared := func(text string) *corev1.PersistentVolumeClaimSpec {
		obj := read(t, k, text)
		k.PrepareCreate(context.Background(), obj)
		return &obj.(*corev1.PersistentVolumeClaim).Spec
	}
	if s := prepared(`{spec: {dataSource: {kind: PersistentVolumeClaim, name: a}}}`); s.DataSourceRef == nil || s.DataSourceRef.Name != "a" {
		t.Errorf("the newer field: %v", s.DataSourceRef)
	}
	if s := prepared(`{spec: {dataSourceRef: {apiGroup: a.example, kind: K, name: a}}}`); s.DataSource == nil || s.DataSource.Kind != "K" {
		t.Errorf("the older field: %v", s.DataSource)
	}
	if s := prepared(`{spec: {dataSource: {apiGroup: a.example, kind: K, name: a}}}`); s.DataSource != nil || s.DataSourceRef != nil {
		t.Errorf("an older field of another kind: %v", s)
	}
}

func TestQuotaRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "valid", kind: "ResourceQuota", obj: `{spec: {hard: {cpu: 1, limits.memory: 1Gi, count/deployments.apps: 3, requests.nvidia.com/gpu: 1, requests.hugepages-2Mi: 2Mi}}}`},
		{name: "names", kind: "ResourceQuota", obj: `{spec: {hard: {pods: 1.5, storage: 1, x: -1}}}`,
			want: `spec.hard[pods]: Invalid value: "1500m": must be an integer
spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota
spec.hard[x]: Invalid value: "x": must be a standard resource type or fully qualified
spec.hard[x]: Invalid value: "-1": must be greater than or equal to 0`},
		{name: "scopes", kind: "ResourceQuota", obj: `{spec: {hard: {cpu: 1}, scopes: [BestEffort, NotBestEffort, x]}}`,
			want: `spec.scopes: Invalid value: ["BestEffort","NotBestEffort","x"]: unsupported scope applied to resource
spec.scopes: Invalid value: ["BestEffort","NotBestEffort","x"]: unsupported scope
spec.scopes: Invalid value: ["BestEffort","NotBestEffort","x"]: conflicting scopes`},
		{name: "selector", kind: "ResourceQuota", obj: `{spec: {hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}, {scopeName: BestEffort, operator: DoesNotExist, values: [a]}, {scopeName: PriorityClass, operator: x}]}}}`,
			want: "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector\n" +
				"spec.scopeSelector.matchExpressions.operator: Invalid value: \"DoesNotExist\": must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity\n" +
				"spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector\n" +
				"spec.scopeSelector.matchExpressions.operator: Invalid value: \"x\": not a valid selector operator"},
		{name: "more", kind: "ResourceQuota", old: `{spec: {hard: {pods: 1}, scopes: [BestEffort]}}`, obj: `{spec: {hard: {pods: 2}, scopes: [BestEffort]}}`},
		{name: "scope changed", kind: "ResourceQuota", old: `{spec: {hard: {pods: 1}, scopes: [BestEffort]}}`, obj: `{spec: {hard: {pods: 1}, scopes: [NotBestEffort]}}`,
			want: `spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable`},
		{name: "status", kind: "ResourceQuota/status", old: `{}`, obj: `{status: {hard: {a/b/c: 1}, used: {pods: -1}}}`,
			want: `status.hard[a/b/c]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`},

		{name: "valid", kind: "LimitRange", obj: `{spec: {limits: [{type: Container, max: {cpu: 2}, min: {cpu: 1}, default: {cpu: 1500m}, maxLimitRequestRatio: {cpu: 2}}, {type: PersistentVolumeClaim, max: {storage: 1Gi}}]}}`},
		{name: "types", kind: "LimitRange", obj: `{spec: {limits: [{type: x}, {type: a.example/x}, {type: a.example/x}, {type: PersistentVolumeClaim}, {type: Pod, default: {cpu: 1}, defaultRequest: {cpu: 1}}]}}`,
			want: "spec.limits[0].type: Invalid value: \"x\": must be a standard limit type or fully qualified\n" +
				"spec.limits[2].type: Duplicate value: \"a.example/x\"\n" +
				"spec.limits[3].limits: Required value: either minimum or maximum storage value is required, but neither was provided\n" +
				"spec.limits[4].default: Forbidden: may not be specified when `type` is 'Pod'\n" +
				"spec.limits[4].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"},
		{name: "order", kind: "LimitRange", obj: `{spec: {limits: [{type: Container, min: {cpu: 3}, max: {cpu: 2}, default: {cpu: 1}, defaultRequest: {cpu: 4}, maxLimitRequestRatio: {cpu: 0.5, x: 1}}]}}`,
			want: `spec.limits[0].maxLimitRequestRatio[x]: Invalid value: "x": must be a standard resource type or fully qualified
spec.limits[0].maxLimitRequestRatio[x]: Invalid value: "x": must be a standard resource for containers
spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than max value 2
spec.limits[0].defaultRequest[cpu]: Invalid value: "4": default request value 4 is greater than max value 2
spec.limits[0].defaultRequest[cpu]: Invalid value: "4": default request value 4 is greater than default limit value 1
spec.limits[0].default[cpu]: Invalid value: "3": min value 3 is greater than default value 1
spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1`},
		{name: "ratio", kind: "LimitRange", obj: `{spec: {limits: [{type: Pod, min: {cpu: 1}, max: {cpu: 2}, maxLimitRequestRatio: {cpu: 3}}]}}`,
			want: `spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`},
		{name: "status", kind: "ReplicationController/status", old: `{}`, obj: `{status: {replicas: 1, readyReplicas: 2, availableReplicas: 3, fullyLabeledReplicas: -1}}`,
			want: `status.fullyLabeledReplicas: Invalid value: -1: must be greater than or equal to 0
status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`},
	})
}
