package all

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// A rule case is an object on its way through its kind, as a server sends it:
// defaults, preparation, validation.
type ruleCase struct {
	name string
	kind string // Kind, or Kind/subresource
	old  string // YAML; empty: the object is new
	obj  string // YAML
	want string // one error a line; empty: valid
}

func kindOf(t *testing.T, name string) *kinds.Kind {
	t.Helper()
	for _, k := range Kinds() {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

func read(t *testing.T, k *kinds.Kind, text string) kinds.Object {
	t.Helper()
	obj := k.HubVersion().New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if obj.GetName() == "" {
		obj.SetName("x")
	}
	if k.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace("default")
	}
	if def := k.HubVersion().Default; def != nil {
		def(obj)
	}
	return obj
}

// judge sends an object through its kind.
func judge(t *testing.T, tc *ruleCase) (kinds.Object, field.ErrorList) {
	t.Helper()
	ctx := context.Background()
	name, sub, _ := strings.Cut(tc.kind, "/")
	k := kindOf(t, name)
	obj := read(t, k, tc.obj)
	if tc.old == "" {
		if k.PrepareCreate != nil {
			k.PrepareCreate(ctx, obj)
		}
		if k.Validate == nil {
			return obj, nil
		}
		return obj, k.Validate(ctx, obj)
	}
	prepare, validate := k.PrepareUpdate, k.ValidateUpdate
	if sub != "" {
		prepare, validate = k.Subresources[sub].PrepareUpdate, k.Subresources[sub].ValidateUpdate
	}
	old := read(t, k, tc.old)
	if prepare != nil {
		prepare(ctx, obj, old)
	}
	if validate == nil {
		return obj, nil
	}
	return obj, validate(ctx, obj, old)
}

func runRules(t *testing.T, cases []ruleCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.kind+" "+tc.name, func(t *testing.T) {
			_, errs := judge(t, &tc)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoreRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "valid", kind: "ConfigMap", obj: `{data: {a: b}, binaryData: {c: ZA==}}`},
		{name: "bad key", kind: "ConfigMap", obj: `{data: {"a b": c}}`,
			want: `data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`},
		{name: "key in both", kind: "ConfigMap", obj: `{data: {a: b}, binaryData: {a: ZA==}}`, want: `data[a]: Invalid value: "a": duplicate of key present in binaryData`},
		{name: "too large", kind: "ConfigMap", obj: `{data: {a: "` + strings.Repeat("x", 1<<20+1) + `"}}`, want: `[]: Too long: may not be more than 1048576 bytes`},
		{name: "immutable", kind: "ConfigMap", old: `{immutable: true, data: {a: b}}`, obj: `{data: {a: c}}`,
			want: "immutable: Forbidden: field is immutable when `immutable` is set\ndata: Forbidden: field is immutable when `immutable` is set"},

		{name: "string data", kind: "Secret", obj: `{stringData: {a: b}}`},
		{name: "TLS without keys", kind: "Secret", obj: `{type: kubernetes.io/tls}`, want: "data[tls.crt]: Required value\ndata[tls.key]: Required value"},
		{name: "docker config", kind: "Secret", obj: `{type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: eA==}}`,
			want: `data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`},
		{name: "basic auth", kind: "Secret", obj: `{type: kubernetes.io/basic-auth}`, want: "data[username]: Required value\ndata[password]: Required value"},
		{name: "token", kind: "Secret", obj: `{type: kubernetes.io/service-account-token}`, want: `metadata.annotations[kubernetes.io/service-account.name]: Required value`},
		{name: "type", kind: "Secret", old: `{type: a/b}`, obj: `{type: c/d}`, want: `type: Invalid value: "c/d": field is immutable`},

		{name: "valid", kind: "Namespace", obj: `{}`},
		{name: "finalizer", kind: "Namespace", obj: `{spec: {finalizers: [x]}}`, want: `spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`},
		{name: "phase", kind: "Namespace/status", old: `{}`, obj: `{status: {phase: Terminating}}`, want: "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"},
		{name: "finalize", kind: "Namespace/finalize", old: `{}`, obj: `{spec: {finalizers: ["x/y", z]}}`, want: `spec.finalizers[1]: Invalid value: "z": name is neither a standard finalizer name nor is it fully qualified`},

		{name: "taints", kind: "Node", obj: `{spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b}, {key: c, effect: x}]}}`,
			want: `metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect pair
metadata.taints[2].effect: Required value
metadata.taints[3].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		{name: "pod CIDR", kind: "Node", obj: `{spec: {podCIDRs: [x]}}`, want: `spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
		{name: "pod CIDR given", kind: "Node", old: `{}`, obj: `{spec: {podCIDR: 10.0.0.0/24}}`},
		{name: "pod CIDR changed", kind: "Node", old: `{spec: {podCIDR: 10.0.0.0/24}}`, obj: `{spec: {podCIDR: 10.0.1.0/24}}`,
			want: `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`},
		{name: "pod CIDRs of both families", kind: "Node", obj: `{spec: {podCIDRs: ["fd00::/64", 10.0.0.0/24]}}`},
		{name: "pod CIDRs of one family", kind: "Node", obj: `{spec: {podCIDRs: ["fd00::/64", "fd01::/64"]}}`,
			want: `spec.podCIDRs: Invalid value: ["fd00::/64","fd01::/64"]: may specify no more than one CIDR for each IP family`},
		{name: "pod CIDRs, three", kind: "Node", obj: `{spec: {podCIDRs: ["fd00::/64", 10.0.0.0/24, 10.0.1.0/24]}}`,
			want: `spec.podCIDRs: Invalid value: ["fd00::/64","10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`},
		{name: "pod CIDRs given", kind: "Node", old: `{}`, obj: `{spec: {podCIDRs: ["fd00::/64", 10.0.0.0/24]}}`},
		{name: "pod CIDR of a second family", kind: "Node", old: `{spec: {podCIDR: 10.0.0.0/24}}`, obj: `{spec: {podCIDRs: [10.0.0.0/24, "fd00::/64"]}}`,
			want: `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`},
		{name: "provider changed", kind: "Node", old: `{spec: {providerID: a}}`, obj: `{spec: {providerID: b}}`,
			want: `spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`},
		{name: "addresses", kind: "Node/status", old: `{}`, obj: `{status: {addresses: [{type: InternalIP, address: a}, {type: InternalIP, address: a}]}}`,
			want: `status.addresses[1]: Duplicate value: {"type":"InternalIP","address":"a"}`},

		{name: "old form", kind: "Event", obj: `{metadata: {name: e}, involvedObject: {namespace: other}}`, want: `involvedObject.namespace: Invalid value: "other": does not match event.namespace`},
		{name: "new form", kind: "Event", obj: `{metadata: {name: e}, eventTime: "2026-01-01T00:00:00.000000Z", involvedObject: {namespace: default}, reason: R, action: A, reportingInstance: i}`,
			want: `reportingController: Required value
reportingController: Invalid value: "": name part must be non-empty
reportingController: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},

		{name: "subsets", kind: "Endpoints", obj: `{subsets: [{}, {addresses: [{ip: 127.0.0.1}], ports: [{port: 0}, {port: 1}]}]}`,
			want: "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`" + `
subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)
subsets[1].ports[0].name: Required value
subsets[1].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
subsets[1].ports[1].name: Required value`},

		{name: "duration", kind: "Lease", obj: `{spec: {leaseDurationSeconds: 0, leaseTransitions: -1, preferredHolder: a}}`,
			want: "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0\nspec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0\nspec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"},
		{name: "valid", kind: "Lease", obj: `{spec: {holderIdentity: a, leaseDurationSeconds: 40, renewTime: "2026-01-01T00:00:00.000000Z"}}`},

		{name: "addresses", kind: "EndpointSlice", obj: `{addressType: IPv4, endpoints: [{addresses: []}, {addresses: ["fd00::1", "169.254.1.1"], hostname: A}], ports: [{port: 1}, {port: 2}]}`,
			want: `endpoints[0].addresses: Required value: must contain at least 1 address
endpoints[1].addresses[0]: Invalid value: "fd00::1": must be a valid IPv4 address
endpoints[1].addresses[1]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)
endpoints[1].hostname: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
ports[1].name: Duplicate value: ""`},
		{name: "no type", kind: "EndpointSlice", obj: `{endpoints: [], ports: []}`, want: `addressType: Required value`},
		{name: "type changed", kind: "EndpointSlice", old: `{addressType: IPv4}`, obj: `{addressType: IPv6}`, want: `addressType: Invalid value: "IPv6": field is immutable`},
	})
}

func TestServiceRules(t *testing.T) {
	const ip = `clusterIP: 10.43.0.1, clusterIPs: [10.43.0.1]`
	runRules(t, []ruleCase{
		{name: "valid", kind: "Service", obj: `{spec: {` + ip + `, ports: [{port: 80}], selector: {a: b}}}`},
		{name: "no ports", kind: "Service", obj: `{spec: {` + ip + `}}`, want: `spec.ports: Required value`},
		{name: "headless", kind: "Service", obj: `{spec: {clusterIP: None, clusterIPs: [None]}}`},
		{name: "headless node port", kind: "Service", obj: `{spec: {type: NodePort, clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}}`,
			want: `spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`},
		{name: "ports", kind: "Service", obj: `{spec: {` + ip + `, ports: [{port: 80}, {port: 80, name: a, nodePort: 30000}, {port: 0, name: a, protocol: X}]}}`,
			want: `spec.ports[0].name: Required value
spec.ports[1].nodePort: Forbidden: may not be used when ` + "`type`" + ` is 'ClusterIP'
spec.ports[1]: Duplicate value: {"protocol":"TCP","port":80,"targetPort":0}
spec.ports[2].name: Duplicate value: "a"
spec.ports[2].port: Invalid value: 0: must be between 1 and 65535, inclusive
spec.ports[2].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"
spec.ports[2].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive`},
		{name: "type", kind: "Service", obj: `{spec: {type: x, ` + ip + `, ports: [{port: 80}]}}`,
			want: `spec.type: Unsupported value: "x": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`},
		{name: "external name", kind: "Service", obj: `{spec: {type: ExternalName}}`, want: `spec.externalName: Required value`},
		{name: "affinity", kind: "Service", obj: `{spec: {` + ip + `, ports: [{port: 80}], sessionAffinity: x}}`,
			want: `spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"`},
		{name: "cluster IP", kind: "Service", obj: `{spec: {clusterIP: x, clusterIPs: [x], ports: [{port: 80}]}}`,
			want: `spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		{name: "family", kind: "Service", obj: `{spec: {` + ip + `, ipFamilies: [IPv6], ports: [{port: 80}]}}`,
			want: "spec.clusterIPs[0]: Invalid value: \"10.43.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"},
		{name: "external policy", kind: "Service", obj: `{spec: {` + ip + `, externalTrafficPolicy: Local, ports: [{port: 80}]}}`,
			want: `spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`},
		{name: "external IP", kind: "Service", obj: `{spec: {` + ip + `, externalIPs: [127.0.0.1], ports: [{port: 80}]}}`,
			want: `spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`},
		{name: "source ranges", kind: "Service", obj: `{spec: {` + ip + `, loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}]}}`,
			want: "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"},
		{name: "cluster IP changed", kind: "Service", old: `{spec: {` + ip + `, ports: [{port: 80}]}}`, obj: `{spec: {clusterIP: 10.43.0.2, clusterIPs: [10.43.0.2], ports: [{port: 80}]}}`,
			want: `spec.clusterIPs[0]: Invalid value: ["10.43.0.2"]: may not change once set`},
		{name: "cluster IP gone", kind: "Service", old: `{spec: {` + ip + `, ports: [{port: 80}]}}`, obj: `{spec: {ports: [{port: 80}]}}`,
			want: `spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset`},
		{name: "becomes external name", kind: "Service", old: `{spec: {` + ip + `, ports: [{port: 80}]}}`, obj: `{spec: {type: ExternalName, externalName: a.example}}`},
		{name: "status", kind: "Service/status", old: `{spec: {` + ip + `, ports: [{port: 80}]}}`, obj: `{status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}`,
			want: "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"},
	})
}

// Addresses and ranges have no zeros in front and no bits behind the prefix,
// since 1.36. What was there before may stay.
func TestStrictAddresses(t *testing.T) {
	const (
		zeros = `must not have leading 0s`
		bits  = `must not have bits set beyond the prefix length`
		was   = `{spec: {clusterIP: 010.43.0.1, clusterIPs: [010.43.0.1], ports: [{port: 80}], type: LoadBalancer, externalIPs: [1.2.3.04], loadBalancerSourceRanges: [" 10.0.0.1/8 "]}}`
		sets  = `{subsets: [{addresses: [{ip: 10.0.0.01}]}]}`
		slice = `{addressType: IPv4, endpoints: [{addresses: [10.0.0.01]}]}`
		block = `{spec: {ingress: [{from: [{ipBlock: {cidr: 010.0.0.0/8, except: [10.1.0.1/16]}}]}]}}`
		state = `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.04, ipMode: VIP}]}}}`
		front = `{status: {loadBalancer: {ingress: [{ip: 1.2.3.04}]}}}`
	)
	runRules(t, []ruleCase{
		{name: "service", kind: "Service", obj: was, want: `spec.clusterIPs[0]: Invalid value: "010.43.0.1": ` + zeros + `
spec.externalIPs[0]: Invalid value: "1.2.3.04": ` + zeros + `
spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": ` + bits},
		{name: "old service", kind: "Service", old: was, obj: was},
		{name: "service status", kind: "Service/status", old: `{spec: {type: LoadBalancer}}`, obj: state,
			want: `status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3.04": ` + zeros},
		{name: "old service status", kind: "Service/status", old: state, obj: state},
		{name: "endpoints", kind: "Endpoints", obj: sets, want: `subsets[0].addresses[0].ip: Invalid value: "10.0.0.01": ` + zeros},
		{name: "old endpoints", kind: "Endpoints", old: sets, obj: sets},
		{name: "slice", kind: "EndpointSlice", obj: slice, want: `endpoints[0].addresses[0]: Invalid value: "10.0.0.01": ` + zeros},
		{name: "old slice", kind: "EndpointSlice", old: slice, obj: slice},
		{name: "policy", kind: "NetworkPolicy", obj: block, want: `spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "010.0.0.0/8": must not have leading 0s in IP or prefix length
spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "10.1.0.1/16": ` + bits},
		{name: "old policy", kind: "NetworkPolicy", old: block, obj: block},
		{name: "ingress", kind: "Ingress/status", old: `{}`, obj: front, want: `status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3.04": ` + zeros},
		{name: "old ingress", kind: "Ingress/status", old: front, obj: front},
		{name: "pod", kind: "Pod", obj: `{spec: {dnsConfig: {nameservers: ["FD00:0::1"]}, hostAliases: [{ip: "FD00:0::1"}], containers: [{name: c, image: i}]}}`},
		{name: "node", kind: "Node", obj: `{spec: {podCIDRs: ["FD00:0::/64"]}}`},
	})
}

func TestWorkloadRules(t *testing.T) {
	const (
		template = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
		spec     = `selector: {matchLabels: {a: b}}, ` + template
	)
	runRules(t, []ruleCase{
		{name: "valid", kind: "Deployment", obj: `{spec: {` + spec + `}}`},
		{name: "nothing", kind: "Deployment", obj: `{}`, want: "spec.selector: Required value\nspec.template.spec.containers: Required value"},
		{name: "empty selector", kind: "Deployment", obj: `{spec: {selector: {}, ` + template + `}}`, want: `spec.selector: Invalid value: {}: empty selector is invalid for deployment`},
		{name: "other labels", kind: "Deployment", obj: `{spec: {selector: {matchLabels: {a: c}}, ` + template + `}}`,
			want: "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"},
		{name: "bad selector", kind: "Deployment", obj: `{spec: {selector: {matchExpressions: [{key: a, operator: x}]}, ` + template + `}}`,
			want: `spec.selector.matchExpressions[0].operator: Invalid value: "x": not a valid selector operator
spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"x"}]}: invalid label selector`},
		{name: "negative", kind: "Deployment", obj: `{spec: {replicas: -1, minReadySeconds: -1, revisionHistoryLimit: -1, ` + spec + `}}`,
			want: `spec.replicas: Invalid value: -1: must be greater than or equal to 0
spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`},
		{name: "deadline", kind: "Deployment", obj: `{spec: {minReadySeconds: 600, ` + spec + `}}`, want: `spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds`},
		{name: "never surging", kind: "Deployment", obj: `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}, ` + spec + `}}`,
			want: "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"},
		{name: "percent", kind: "Deployment", obj: `{spec: {strategy: {rollingUpdate: {maxSurge: x, maxUnavailable: 101%}}, ` + spec + `}}`,
			want: `spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`},
		{name: "recreate", kind: "Deployment", obj: `{spec: {strategy: {type: Recreate, rollingUpdate: {}}, ` + spec + `}}`,
			want: "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"},
		{name: "strategy", kind: "Deployment", obj: `{spec: {strategy: {type: x}, ` + spec + `}}`, want: `spec.strategy.type: Unsupported value: "x": supported values: "Recreate", "RollingUpdate"`},
		{name: "restart policy", kind: "Deployment", obj: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, activeDeadlineSeconds: 1, containers: [{name: c, image: i}]}}}}`,
			want: `spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`},
		{name: "selector changed", kind: "Deployment", old: `{spec: {` + spec + `}}`, obj: `{spec: {selector: {matchLabels: {a: b, c: d}}, template: {metadata: {labels: {a: b, c: d}}, spec: {containers: [{name: c, image: i}]}}}}`,
			want: `spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable`},
		{name: "status", kind: "Deployment/status", old: `{status: {collisionCount: 1}}`, obj: `{status: {readyReplicas: 1, availableReplicas: 2}}`,
			want: `status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas
status.collisionCount: Invalid value: 0: cannot be decremented`},

		{name: "valid", kind: "ReplicaSet", obj: `{spec: {` + spec + `}}`},
		{name: "other labels", kind: "ReplicaSet", obj: `{spec: {selector: {matchLabels: {a: c}}, ` + template + `}}`,
			want: "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"},
		{name: "template", kind: "ReplicaSet", obj: `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: A, image: i, volumeMounts: [{name: v, mountPath: /x}]}]}}}}`,
			want: `spec.template.spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
spec.template.spec.containers[0].volumeMounts[0].name: Not found: "v"`},
		{name: "selector changed", kind: "ReplicaSet", old: `{spec: {` + spec + `}}`, obj: `{spec: {selector: {matchLabels: {c: d}}, template: {metadata: {labels: {c: d}}, spec: {containers: [{name: c, image: i}]}}}}`,
			want: `spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable`},
		{name: "status", kind: "ReplicaSet/status", old: `{}`, obj: `{status: {replicas: -1}}`,
			want: `status.replicas: Invalid value: -1: must be greater than or equal to 0
status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas
status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas
status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas`},
	})
}
