package all

import "testing"

const dnsName = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func TestPolicyRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "valid", kind: "PodDisruptionBudget", obj: `{spec: {minAvailable: 50%, selector: {matchLabels: {a: b}}}}`},
		{name: "both", kind: "PodDisruptionBudget", obj: `{spec: {minAvailable: 1, maxUnavailable: 101%, unhealthyPodEvictionPolicy: x}}`,
			want: `spec: Invalid value: {"minAvailable":1,"maxUnavailable":"101%","unhealthyPodEvictionPolicy":"x"}: minAvailable and maxUnavailable cannot be both set
spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%
spec.unhealthyPodEvictionPolicy: Unsupported value: "x": supported values: "AlwaysAllow", "IfHealthyBudget"`},
		{name: "status", kind: "PodDisruptionBudget/status", old: `{}`, obj: `{status: {disruptionsAllowed: -1, conditions: [{type: a}]}}`,
			want: `status.conditions[0].status: Required value
status.conditions[0].lastTransitionTime: Required value
status.conditions[0].reason: Required value
status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0`},

		{name: "valid", kind: "HorizontalPodAutoscaler", obj: `{spec: {scaleTargetRef: {kind: Deployment, name: d}, maxReplicas: 3}}`},
		{name: "nothing", kind: "HorizontalPodAutoscaler", obj: `{}`,
			want: "spec.maxReplicas: Invalid value: 0: must be greater than 0\nspec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`\nspec.scaleTargetRef.kind: Required value\nspec.scaleTargetRef.name: Required value"},
		{name: "bounds", kind: "HorizontalPodAutoscaler", obj: `{spec: {scaleTargetRef: {kind: a/b, name: d}, minReplicas: 0, maxReplicas: 3}}`,
			want: "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1\nspec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'"},
		{name: "metrics", kind: "HorizontalPodAutoscaler", obj: `{spec: {scaleTargetRef: {kind: Deployment, name: d}, maxReplicas: 3, metrics: [{type: Pods}, {type: x},
			{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 0, averageValue: 1}}, external: {metric: {name: ""}, target: {type: w, value: -1}}},
			{type: ContainerResource, containerResource: {target: {}}}, {type: Object, object: {describedObject: {kind: K, name: n}, metric: {name: m}, target: {type: Value}}}]}}`,
			want: `spec.metrics[0].pods: Required value: must populate information for the given metric source
spec.metrics[1].type: Unsupported value: "x": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"
spec.metrics[2].external.metric.name: Required value: must specify a metric name
spec.metrics[2].external.target.type: Invalid value: "w": must be either Utilization, Value, or AverageValue
spec.metrics[2].external.target.value: Invalid value: "-1": must be positive
spec.metrics[2].resource.target.averageUtilization: Invalid value: 0: must be greater than 0
spec.metrics[2].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization
spec.metrics[2].external: Forbidden: must populate the given metric source only
spec.metrics[3].containerResource.container: Required value: must specify a container
spec.metrics[3].containerResource.name: Required value: must specify a resource name
spec.metrics[3].containerResource.target.type: Required value: must specify a metric target type
spec.metrics[3].containerResource.target.averageUtilization: Required value: must set either a target raw value or a target utilization
spec.metrics[4].object.target.averageValue: Required value: must set either a target value for metric or a per-pod target`},
		{name: "behavior", kind: "HorizontalPodAutoscaler", obj: `{spec: {scaleTargetRef: {kind: Deployment, name: d}, maxReplicas: 3, behavior: {scaleUp: {stabilizationWindowSeconds: 3601, selectPolicy: x, policies: []}, scaleDown: {stabilizationWindowSeconds: -1, tolerance: -1, policies: [{type: w, value: 0, periodSeconds: 1801}]}}}}`,
			want: `spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600
spec.behavior.scaleUp.selectPolicy: Unsupported value: "x": supported values: "Disabled", "Max", "Min"
spec.behavior.scaleUp.policies: Required value: must specify at least one Policy
spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero
spec.behavior.scaleDown.policies[0].type: Unsupported value: "w": supported values: "Percent", "Pods"
spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800
spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0`},
		{name: "status", kind: "HorizontalPodAutoscaler/status", old: `{}`, obj: `{status: {currentReplicas: -1, desiredReplicas: -2}}`,
			want: "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0\nstatus.desiredReplicas: Invalid value: -2: must be greater than or equal to 0"},

		{name: "valid", kind: "PriorityClass", obj: `{value: 1000000000}`},
		{name: "too high", kind: "PriorityClass", obj: `{value: 1000000001, preemptionPolicy: x}`,
			want: "value: Forbidden: maximum allowed value of a user defined priority is 1000000000\npreemptionPolicy: Unsupported value: \"x\": supported values: \"PreemptLowerPriority\", \"Never\""},
		{name: "system", kind: "PriorityClass", obj: `{metadata: {name: system-node-critical}, value: 2000001000}`},
		{name: "no system", kind: "PriorityClass", obj: `{metadata: {name: system-x}}`,
			want: `metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class`},
		{name: "changed", kind: "PriorityClass", old: `{value: 1}`, obj: `{value: 2, preemptionPolicy: Never}`,
			want: "value: Forbidden: may not be changed in an update.\npreemptionPolicy: Invalid value: \"Never\": field is immutable"},
	})
}

func TestRBACRules(t *testing.T) {
	const ref = `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "Role", obj: `{rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}`},
		{name: "nothing", kind: "Role", obj: `{rules: [{}]}`, want: `rules[0].verbs: Required value: verbs must contain at least one value
rules[0].apiGroups: Required value: resource rules must supply at least one api group
rules[0].resources: Required value: resource rules must supply at least one resource`},
		{name: "URL", kind: "Role", obj: `{rules: [{verbs: [get], nonResourceURLs: [/x]}]}`, want: `rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`},
		{name: "URL", kind: "ClusterRole", obj: `{rules: [{verbs: [get], nonResourceURLs: [/x]}, {verbs: [get], nonResourceURLs: [/x], resources: [pods]}]}`,
			want: `rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`},
		{name: "aggregation", kind: "ClusterRole", obj: `{aggregationRule: {}}`,
			want: `aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil`},
		{name: "selector", kind: "ClusterRole", obj: `{aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}, {matchExpressions: [{key: a, operator: x}]}]}}`,
			want: `aggregationRule.clusterRoleSelectors[1].matchExpressions[0].operator: Invalid value: "x": not a valid selector operator
aggregationRule.clusterRoleSelectors[1]: Invalid value: {"matchExpressions":[{"key":"a","operator":"x"}]}: invalid label selector.`},

		{name: "valid", kind: "RoleBinding", obj: `{` + ref + `, subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s}]}`},
		{name: "nothing", kind: "RoleBinding", obj: `{subjects: [{kind: x}, {kind: ServiceAccount, apiGroup: w, name: s}, {kind: User, apiGroup: z, name: u}]}`,
			want: `roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"
roleRef.name: Required value
subjects[0].name: Required value
subjects[0].kind: Unsupported value: "x": supported values: "ServiceAccount", "User", "Group"
subjects[1].apiGroup: Unsupported value: "w": supported values: ""
subjects[2].apiGroup: Unsupported value: "z": supported values: "rbac.authorization.k8s.io"`},
		{name: "role changed", kind: "RoleBinding", old: `{` + ref + `}`, obj: `{roleRef: {kind: Role, name: r}}`,
			want: `roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}: cannot change roleRef`},
		{name: "role", kind: "ClusterRoleBinding", obj: `{roleRef: {kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: s}]}`,
			want: "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"\nsubjects[0].namespace: Required value"},
	})
}

func TestNetworkingRules(t *testing.T) {
	const backend = `backend: {service: {name: s, port: {number: 80}}}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "Ingress", obj: `{spec: {rules: [{host: "*.a.example", http: {paths: [{path: /, pathType: Prefix, ` + backend + `}]}}], tls: [{hosts: [a.example], secretName: s}]}}`},
		{name: "nothing", kind: "Ingress", obj: `{}`, want: "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"},
		{name: "paths", kind: "Ingress", obj: `{spec: {ingressClassName: A, rules: [{host: 10.0.0.1, http: {}}, {http: {paths: [{path: a//, pathType: Exact, backend: {}}, {path: /.., pathType: Prefix, backend: {service: {name: s, port: {name: p, number: 1}}}}, {path: b, backend: {service: {name: "", port: {}}}}, {pathType: x, backend: {resource: {kind: "", name: ""}}}]}}]}}`,
			want: `spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address
spec.rules[0].http.paths: Required value
spec.rules[1].http.paths[0].path: Invalid value: "a//": must be an absolute path
spec.rules[1].http.paths[0].path: Invalid value: "a//": must not contain '//'
spec.rules[1].http.paths[0].backend: Invalid value: "": resource or service backend is required
spec.rules[1].http.paths[1].path: Invalid value: "/..": cannot end with '/..'
spec.rules[1].http.paths[1].backend: Invalid value: "": cannot set both port name & port number
spec.rules[1].http.paths[2].path: Invalid value: "b": must be an absolute path
spec.rules[1].http.paths[2].backend.service.name: Required value
spec.rules[1].http.paths[2].backend: Required value: port name or number is required
spec.rules[1].http.paths[3].pathType: Unsupported value: "x": supported values: "Exact", "ImplementationSpecific", "Prefix"
spec.rules[1].http.paths[3].backend.resource.kind: Required value: kind is required
spec.rules[1].http.paths[3].backend.resource.name: Required value: name is required
spec.ingressClassName: Invalid value: "A": ` + dnsName},
		{name: "two classes", kind: "Ingress", obj: `{metadata: {annotations: {kubernetes.io/ingress.class: a}}, spec: {ingressClassName: b, defaultBackend: {service: {name: s, port: {name: p}}}}}`,
			want: "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"},
		{name: "status", kind: "Ingress/status", old: `{}`, obj: `{status: {loadBalancer: {ingress: [{ip: x, hostname: 10.0.0.1}]}}}`,
			want: "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)\nstatus.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"},

		{name: "valid", kind: "IngressClass", obj: `{spec: {controller: a.example/b, parameters: {kind: K, name: n}}}`},
		{name: "parameters", kind: "IngressClass", obj: `{spec: {controller: x, parameters: {apiGroup: A, kind: K, name: n, scope: Namespace}}}`,
			want: "spec.controller: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")\nspec.parameters.apiGroup: Invalid value: \"A\": " + dnsName + "\nspec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"},
		{name: "controller changed", kind: "IngressClass", old: `{spec: {controller: a.example/b}}`, obj: `{spec: {controller: a.example/c}}`, want: `spec.controller: Invalid value: "a.example/c": field is immutable`},

		{name: "valid", kind: "NetworkPolicy", obj: `{spec: {ingress: [{ports: [{port: 80, endPort: 90}, {port: web}], from: [{podSelector: {}, namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}]}}`},
		{name: "ports", kind: "NetworkPolicy", obj: `{spec: {egress: [{ports: [{protocol: x, port: 0}, {endPort: 1}, {port: web, endPort: 1}, {port: 80, endPort: 70}], to: [{}, {podSelector: {}, ipBlock: {cidr: ""}}, {ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16, 10.0.0.0/8]}}]}], policyTypes: [x]}}`,
			want: "spec.egress[0].ports[0].protocol: Unsupported value: \"x\": supported values: \"TCP\", \"UDP\", \"SCTP\"\n" +
				"spec.egress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive\n" +
				"spec.egress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not specified\n" +
				"spec.egress[0].ports[2].endPort: Invalid value: 1: may not be specified when `port` is non-numeric\n" +
				"spec.egress[0].ports[3].endPort: Invalid value: 70: must be greater than or equal to `port`\n" +
				"spec.egress[0].to[0]: Required value: must specify a peer\n" +
				"spec.egress[0].to[1].ipBlock.cidr: Required value\n" +
				"spec.egress[0].to[1]: Forbidden: may not specify both ipBlock and another peer\n" +
				"spec.egress[0].to[2].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`\n" +
				"spec.egress[0].to[2].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`\n" +
				"spec.policyTypes[0]: Unsupported value: \"x\": supported values: \"Ingress\", \"Egress\""},

		{name: "valid", kind: "ServiceCIDR", obj: `{spec: {cidrs: [10.0.0.0/16, "fd00::/112"]}}`},
		{name: "none", kind: "ServiceCIDR", obj: `{}`, want: `spec.cidrs: Required value: at least one CIDR required`},
		{name: "families", kind: "ServiceCIDR", obj: `{spec: {cidrs: [10.0.0.0/16, 10.1.0.0/16]}}`,
			want: `spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.0/16"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96`},
		{name: "family added", kind: "ServiceCIDR", old: `{spec: {cidrs: [10.0.0.0/16]}}`, obj: `{spec: {cidrs: [10.0.0.0/16, "fd00::/112"]}}`},
		{name: "changed", kind: "ServiceCIDR", old: `{spec: {cidrs: [10.0.0.0/16]}}`, obj: `{spec: {cidrs: [10.1.0.0/16]}}`, want: `spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable`},
		{name: "IPv6 alone", kind: "ServiceCIDR", obj: `{spec: {cidrs: ["fd00::/64"]}}`},
		{name: "IPv6 first", kind: "ServiceCIDR", obj: `{spec: {cidrs: ["fd00::/112", 10.0.0.0/16]}}`},
		{name: "three", kind: "ServiceCIDR", obj: `{spec: {cidrs: ["fd00::/112", 10.0.0.0/16, "fd01::/112"]}}`,
			want: `spec.cidrs: Invalid value: ["fd00::/112","10.0.0.0/16","fd01::/112"]: may only hold up to 2 values`},
		{name: "another before", kind: "ServiceCIDR", old: `{spec: {cidrs: [10.0.0.0/16]}}`, obj: `{spec: {cidrs: ["fd00::/112", 10.0.0.0/16]}}`,
			want: `spec.cidrs[0]: Invalid value: "fd00::/112": field is immutable`},
		{name: "family taken away", kind: "ServiceCIDR", old: `{spec: {cidrs: [10.0.0.0/16, "fd00::/112"]}}`, obj: `{spec: {cidrs: [10.0.0.0/16]}}`,
			want: `spec.cidrs: Invalid value: ["10.0.0.0/16"]: field is immutable`},
		{name: "spelling", kind: "ServiceCIDR", obj: `{spec: {cidrs: ["FD00::/112"]}}`, want: `spec.cidrs[0]: Invalid value: "FD00::/112": must be in canonical form ("fd00::/112")`},
		{name: "bits beyond", kind: "ServiceCIDR", obj: `{spec: {cidrs: ["fd00::1/112"]}}`, want: `spec.cidrs[0]: Invalid value: "fd00::1/112": must not have bits set beyond the prefix length`},
		{name: "valid", kind: "IPAddress", obj: `{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, name: s, namespace: n}}}`},
		{name: "no parent", kind: "IPAddress", obj: `{metadata: {name: 10.0.0.1}}`, want: `spec.parentRef: Required value`},
		{name: "parent", kind: "IPAddress", obj: `{metadata: {name: 10.0.0.1}, spec: {parentRef: {group: A}}}`,
			want: "spec.parentRef.group: Invalid value: \"A\": " + dnsName + "\nspec.parentRef.resource: Required value\nspec.parentRef.name: Required value"},
	})
}

func TestIPAddressNames(t *testing.T) {
	k := kindOf(t, "IPAddress")
	for name, ok := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "FD00::1": false, "10.0.0.01": false, "x": false,
		"::1": true, "fd00:0::1": false, "fd00::0001": false, "::ffff:10.0.0.1": false, "fe80::1%eth0": false, "2001:db8::1:0:0:1": true, "2001:db8:0:0:1::1": false, "fd00::/64": false} {
		if bad := k.ValidateName(name, false); (len(bad) == 0) != ok {
			t.Errorf("%s: %v", name, bad)
		}
	}
}

func TestStorageRules(t *testing.T) {
	runRules(t, []ruleCase{
		{name: "valid", kind: "StorageClass", obj: `{provisioner: a.example/b, parameters: {c: d}}`},
		{name: "nothing", kind: "StorageClass", obj: `{}`, want: `provisioner: Required value`},
		{name: "rest", kind: "StorageClass", obj: `{provisioner: "a b", reclaimPolicy: x, volumeBindingMode: w, allowedTopologies: [{matchLabelExpressions: [{key: a, values: [b, b]}, {key: a, values: []}]}, {}, {}]}`,
			want: `provisioner: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
reclaimPolicy: Unsupported value: "x": supported values: "Delete", "Retain"
volumeBindingMode: Unsupported value: "w": supported values: "Immediate", "WaitForFirstConsumer"
allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "b"
allowedTopologies[0].matchLabelExpressions[1].values: Required value
allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"
allowedTopologies[2].matchLabelExpressions: Duplicate value: ""`},
		{name: "changed", kind: "StorageClass", old: `{provisioner: a}`, obj: `{provisioner: b, parameters: {c: d}, reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer, mountOptions: [x]}`,
			want: `parameters: Forbidden: updates to parameters are forbidden.
provisioner: Forbidden: updates to provisioner are forbidden.
reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.
volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`},
		{name: "valid", kind: "VolumeAttributesClass", obj: `{driverName: d, parameters: {a: b}}`},
		{name: "nothing", kind: "VolumeAttributesClass", obj: `{}`, want: "driverName: Required value\nparameters: Required value: must contain at least one key/value pair"},
		{name: "changed", kind: "VolumeAttributesClass", old: `{driverName: d, parameters: {a: b}}`, obj: `{driverName: e, parameters: {a: c}}`,
			want: "driverName: Forbidden: updates to driverName are forbidden.\nparameters: Forbidden: updates to parameters are forbidden."},

		{name: "valid", kind: "VolumeAttachment", obj: `{spec: {attacher: a, nodeName: n, source: {persistentVolumeName: v}}}`},
		{name: "nothing", kind: "VolumeAttachment", obj: `{spec: {attacher: a, nodeName: NN}}`,
			want: "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName\nspec.nodeName: Invalid value: \"NN\": " + dnsName},
		{name: "inline", kind: "VolumeAttachment", obj: `{spec: {attacher: a, nodeName: n, source: {inlineVolumeSpec: {hostPath: {path: /x}, capacity: {storage: 1}}}}}`,
			want: "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes\nspec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"},
		{name: "changed", kind: "VolumeAttachment", old: `{spec: {attacher: a, nodeName: n, source: {persistentVolumeName: v}}}`, obj: `{spec: {attacher: a, nodeName: m, source: {persistentVolumeName: v}}}`,
			want: `spec: Invalid value: {"attacher":"a","source":{"persistentVolumeName":"v"},"nodeName":"m"}: field is immutable`},

		{name: "drivers", kind: "CSINode", obj: `{spec: {drivers: [{name: a, nodeID: n, topologyKeys: [k, k]}, {name: a, nodeID: "", allocatable: {count: -1}}]}}`,
			want: `spec.drivers[0].topologyKeys: Duplicate value: "k"
spec.drivers[1].name: Duplicate value: "a"
spec.drivers[1].nodeID: Required value
spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0`},
		{name: "allocatable changed", kind: "CSINode", old: `{spec: {drivers: [{name: a, nodeID: n}]}}`, obj: `{spec: {drivers: [{name: a, nodeID: n, allocatable: {count: 1}}, {name: b, nodeID: n}]}}`},
		{name: "driver changed", kind: "CSINode", old: `{spec: {drivers: [{name: a, nodeID: n}]}}`, obj: `{spec: {drivers: [{name: a, nodeID: m}]}}`,
			want: `spec.drivers: Invalid value: {"name":"a","nodeID":"m","topologyKeys":null}: field is immutable`},
		{name: "valid", kind: "CSIDriver", obj: `{metadata: {name: d.example}}`},
		{name: "rest", kind: "CSIDriver", obj: `{spec: {fsGroupPolicy: x, tokenRequests: [{audience: a, expirationSeconds: 1}, {audience: a}], volumeLifecycleModes: [w], nodeAllocatableUpdatePeriodSeconds: 9}}`,
			want: `spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None", "ReadWriteOnceWithFSType"
spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
spec.tokenRequests[1].audience: Duplicate value: "a"
spec.volumeLifecycleModes: Unsupported value: "w": supported values: "Ephemeral", "Persistent"
spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds`},
		{name: "secrets of no tokens", kind: "CSIDriver", obj: `{spec: {serviceAccountTokenInSecrets: false}}`,
			want: "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are specified"},
		{name: "secrets of tokens", kind: "CSIDriver", obj: `{spec: {serviceAccountTokenInSecrets: true, tokenRequests: [{audience: a}]}}`},
		{name: "changed", kind: "CSIDriver", old: `{}`, obj: `{spec: {attachRequired: false, volumeLifecycleModes: [Ephemeral]}}`,
			want: "spec.attachedRequired: Invalid value: false: field is immutable\nspec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable"},
		{name: "capacity", kind: "CSIStorageCapacity", obj: `{storageClassName: s, capacity: -1}`, want: `capacity: Invalid value: "-1": must be greater than or equal to 0`},
		{name: "class changed", kind: "CSIStorageCapacity", old: `{storageClassName: s}`, obj: `{storageClassName: t, nodeTopology: {}}`,
			want: "nodeTopology: Invalid value: {}: field is immutable\nstorageClassName: Invalid value: \"t\": field is immutable"},
	})
}
