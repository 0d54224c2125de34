package all

import "testing"

// volume is a pod with one volume.
func volume(source string) string {
	return `{spec: {containers: [{name: c, image: i}], volumes: [{name: v, ` + source + `}]}}`
}

// container is a pod with more said of its container.
func container(more string) string {
	return `{spec: {containers: [{name: c, image: i, ` + more + `}]}}`
}

func TestVolumeRules(t *testing.T) {
	const v = "spec.volumes[0]."
	runRules(t, []ruleCase{
		{name: "emptyDir", kind: "Pod", obj: volume(`emptyDir: {sizeLimit: -1}`), want: v + "emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"},
		{name: "gitRepo", kind: "Pod", obj: volume(`gitRepo: {directory: ../x}`), want: v + "gitRepo.repository: Required value\n" + v + `gitRepo.directory: Invalid value: "../x": must not contain '..'`},
		{name: "nfs", kind: "Pod", obj: volume(`nfs: {server: s, path: x}`), want: v + `nfs.path: Invalid value: "x": must be an absolute path`},
		{name: "iscsi", kind: "Pod", obj: volume(`iscsi: {targetPortal: p, iqn: x, lun: 256, chapAuthSession: true}`),
			want: v + `iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa
` + v + `iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive
` + v + `iscsi.secretRef: Required value`},
		{name: "fc", kind: "Pod", obj: volume(`fc: {targetWWNs: [a]}`), want: v + "fc.lun: Required value: lun is required if targetWWNs is specified"},
		{name: "gce", kind: "Pod", obj: volume(`gcePersistentDisk: {pdName: "", partition: 256}`),
			want: v + "persistentDisk.pdName: Required value\n" + v + "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"},
		{name: "aws", kind: "Pod", obj: volume(`awsElasticBlockStore: {volumeID: ""}`), want: v + "awsElasticBlockStore.volumeID: Required value"},
		{name: "glusterfs", kind: "Pod", obj: volume(`glusterfs: {endpoints: "", path: ""}`), want: v + "glusterfs.endpoints: Required value\n" + v + "glusterfs.path: Required value"},
		{name: "flocker", kind: "Pod", obj: volume(`flocker: {}`), want: v + "flocker: Required value: one of datasetName and datasetUUID is required"},
		{name: "rbd", kind: "Pod", obj: volume(`rbd: {monitors: [], image: ""}`), want: v + "rbd.monitors: Required value\n" + v + "rbd.image: Required value"},
		{name: "cephfs", kind: "Pod", obj: volume(`cephfs: {monitors: []}`), want: v + "cephfs.monitors: Required value"},
		{name: "cinder", kind: "Pod", obj: volume(`cinder: {volumeID: a, secretRef: {}}`), want: v + "cinder.secretRef.name: Required value"},
		{name: "quobyte", kind: "Pod", obj: volume(`quobyte: {registry: a, volume: v}`), want: v + `quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas`},
		{name: "flex", kind: "Pod", obj: volume(`flexVolume: {driver: d, options: {"a.k8s.io/x": b}}`),
			want: v + `flexVolume.options[a.k8s.io/x]: Invalid value: "a.k8s.io/x": kubernetes.io and k8s.io namespaces are reserved`},
		{name: "azure disk", kind: "Pod", obj: volume(`azureDisk: {diskName: a, diskURI: b, kind: Managed}`),
			want: v + `azureDisk.diskURI: Unsupported value: "b": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`},
		{name: "azure file", kind: "Pod", obj: volume(`azureFile: {secretName: "", shareName: s}`), want: v + "azureFile.secretName: Required value"},
		{name: "storageos", kind: "Pod", obj: volume(`storageos: {}`), want: v + "storageos.volumeName: Required value"},
		{name: "scaleIO", kind: "Pod", obj: volume(`scaleIO: {gateway: g, system: s, secretRef: {}}`), want: v + "scaleIO.volumeName: Required value"},
		{name: "claim", kind: "Pod", obj: volume(`persistentVolumeClaim: {claimName: ""}`), want: v + "persistentVolumeClaim.claimName: Required value"},
		{name: "csi", kind: "Pod", obj: volume(`csi: {driver: "a b"}`),
			want: v + `csi.driver: Invalid value: "a b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		{name: "ephemeral", kind: "Pod", obj: volume(`ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce, ReadWriteOncePod]}}}`),
			want: v + "ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes\n" + v + "ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"},
		{name: "image", kind: "Pod", obj: volume(`image: {reference: "", pullPolicy: x}`),
			want: v + "image.reference: Required value\n" + v + `image.pullPolicy: Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never"`},
		{name: "downward", kind: "Pod", obj: volume(`downwardAPI: {items: [{path: ""}, {path: a, fieldRef: {fieldPath: spec.nodeName}}, {path: b, resourceFieldRef: {resource: limits.cpu}}]}`),
			want: v + "downwardAPI.path: Required value\n" + v + "downwardAPI: Required value: one of fieldRef and resourceFieldRef is required\n" +
				v + `downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"` + "\n" +
				v + "downwardAPI.resourceFieldRef.containerName: Required value"},
		{name: "projected", kind: "Pod", obj: `{spec: {serviceAccountName: s, containers: [{name: c, image: i}], volumes: [{name: v, projected: {sources: [
			{secret: {name: a, items: [{key: k, path: p}]}}, {configMap: {name: b, items: [{key: k, path: p}]}},
			{serviceAccountToken: {path: "", expirationSeconds: 1}}, {secret: {name: a}, configMap: {name: b}},
			{clusterTrustBundle: {path: t}}, {podCertificate: {signerName: a.example/b, keyType: x}}]}}]}}`,
			want: v + `projected: Invalid value: "b": conflicting duplicate paths
` + v + `projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes
` + v + `projected.path: Required value
` + v + `projected.sources[3]: Forbidden: may not specify more than 1 volume type per source
` + v + `projected.sources[4].clusterTrustBundle: Required value: either name or signerName must be specified
` + v + `projected.sources[5].podCertificate.keyType: Unsupported value: "x": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"
` + v + `projected.sources[5].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath`},
	})
}

func TestContainerRules(t *testing.T) {
	const c = "spec.containers[0]."
	runRules(t, []ruleCase{
		{name: "parts of an image", kind: "Pod", obj: `{spec: {containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a, subPath: d}, {name: v, mountPath: /b, subPathExpr: $(X)}]}], volumes: [{name: v, image: {reference: r}}]}}`},
		{name: "mount options", kind: "Pod", obj: `{spec: {containers: [{name: c, image: i, volumeMounts: [
			{name: v, mountPath: /a, subPath: ../x}, {name: v, mountPath: /a, mountPropagation: Bidirectional, recursiveReadOnly: Enabled}]}], volumes: [{name: v}]}}`,
			want: c + `volumeMounts.subPath: Invalid value: "../x": must not contain '..'
` + c + `volumeMounts[1].mountPath: Invalid value: "/a": must be unique
` + c + `volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers
` + c + `volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true
` + c + `volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified`},
		{name: "devices", kind: "Pod", obj: `{spec: {containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /dev/a}, {name: w, devicePath: /a/../b}]}], volumes: [{name: v}]}}`,
			want: c + `volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode
` + c + `volumeDevices[1].name: Not found: "w"
` + c + `volumeDevices[1].devicePath: Invalid value: "/a/../b": can not contain backsteps ('..')`},
		{name: "hooks", kind: "Pod", obj: container(`lifecycle: {postStart: {}, preStop: {sleep: {seconds: 31}}, stopSignal: SIGTERM}`),
			want: c + `lifecycle.postStart: Required value: must specify a handler type
` + c + `lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)
` + c + "lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"},
		{name: "HTTP probe", kind: "Pod", obj: container(`readinessProbe: {timeoutSeconds: -1, httpGet: {port: 0, scheme: X, httpHeaders: [{name: "a b", value: c}]}}`),
			want: c + `readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive
` + c + `readinessProbe.httpGet.scheme: Unsupported value: "X": supported values: "HTTP", "HTTPS"
` + c + `readinessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')
` + c + `readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0`},
		{name: "huge pages", kind: "Pod", obj: container(`resources: {limits: {hugepages-2Mi: 3Mi}}`),
			want: c + `resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
` + c + `resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
` + c + `resources: Forbidden: HugePages require cpu or memory`},
		{name: "half a device", kind: "Pod", obj: container(`resources: {limits: {example.com/gpu: 500m}}`),
			want: c + `resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer
` + c + `resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer`},
		{name: "claims", kind: "Pod", obj: `{spec: {resourceClaims: [{name: a, resourceClaimName: x}, {name: a}], containers: [{name: c, image: i, resources: {claims: [{name: a, request: r}, {name: a}, {name: b}]}}]}}`,
			want: `spec.resourceClaims[1].name: Duplicate value: "a"
` + "spec.resourceClaims[1]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`" + `
` + c + `resources.claims[1]: Duplicate value: "a"
` + c + `resources.claims[2]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a`},
		{name: "resize", kind: "Pod", obj: `{spec: {restartPolicy: Never, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}, {resourceName: gold, restartPolicy: NotRequired}]}]}}`,
			want: c + "resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when `restartPolicy` is 'Never'\n" + c + `resizePolicy: Unsupported value: "gold": supported values: "cpu", "memory"`},
		{name: "pod resources", kind: "Pod", obj: `{spec: {resources: {requests: {cpu: 1}}, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}`,
			want: `spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`},
		{name: "divisor", kind: "Pod", obj: container(`env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 5m}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.gold}}}]`),
			want: c + `env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource
` + c + `env[1].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gold": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`},
		{name: "key reference", kind: "Pod", obj: container(`env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: ""}}}], envFrom: [{secretRef: {name: ""}}]`),
			want: c + "env[0].valueFrom.configMapKeyRef.key: Required value\n" + c + "envFrom[0].secretRef.name: Required value"},
		{name: "escalation", kind: "Pod", obj: container(`securityContext: {privileged: true, allowPrivilegeEscalation: false}`),
			want: c + "securityContext: Invalid value: {\"privileged\":true,\"allowPrivilegeEscalation\":false}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"},
		{name: "windows user", kind: "Pod", obj: container(`securityContext: {windowsOptions: {runAsUserName: 'a\b\c'}}`),
			want: c + `securityContext.windowsOptions.runAsUserName: Invalid value: "a\\b\\c": runAsUserName cannot contain more than one backslash`},
		{name: "AppArmor", kind: "Pod", obj: container(`securityContext: {appArmorProfile: {type: Localhost}}`),
			want: c + "securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost"},
		{name: "seccomp annotation", kind: "Pod", obj: `{metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}}, spec: {securityContext: {seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i}]}}`,
			want: "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"},
		{name: "deletion cost", kind: "Pod", obj: `{metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: "+1"}}, spec: {containers: [{name: c, image: i}]}}`,
			want: `metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer`},
		{name: "own users", kind: "Pod", obj: `{spec: {hostUsers: false, hostPID: true, containers: [{name: c, image: i}]}}`, want: "spec.hostPID: Forbidden: when `hostUsers` is false"},
		{name: "DNS", kind: "Pod", obj: `{spec: {dnsConfig: {nameservers: [a, 1.1.1.1, 1.1.1.2, 1.1.1.3], options: [{}]}, hostAliases: [{ip: x}], containers: [{name: c, image: i}]}}`,
			want: `spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
spec.dnsConfig.nameservers: Invalid value: ["a","1.1.1.1","1.1.1.2","1.1.1.3"]: must not have more than 3 nameservers
spec.dnsConfig.nameservers[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
spec.dnsConfig.options[0]: Required value: must not be empty`},
		{name: "restart rules", kind: "Pod", obj: container(`restartPolicyRules: [{action: Restart}]`),
			want: c + "restartPolicy: Required value: must specify restartPolicy when restart rules are used\n" + c + "restartPolicyRules[0].exitCodes: Required value: must be specified"},
		{name: "node affinity", kind: "Pod", obj: `{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: b, operator: Exists, values: [x]}, {key: c, operator: Gt}], matchFields: [{key: x, operator: In, values: [y]}]}]}}}, containers: [{name: c, image: i}]}}`,
			want: "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'\n" +
				"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'\n" +
				"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'\n" +
				`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "x": not a valid field selector key`},
	})
}

func TestOtherWorkloadRules(t *testing.T) {
	const spec = `selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	runRules(t, []ruleCase{
		{name: "valid", kind: "StatefulSet", obj: `{spec: {serviceName: s, ` + spec + `}}`},
		{name: "a claim is a volume", kind: "StatefulSet", obj: `{spec: {serviceName: s, selector: {matchLabels: {a: b}}, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],
			template: {metadata: {labels: {a: b}}, spec: {hostname: Is_Replaced, containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]}}}}`},
		{name: "policy", kind: "StatefulSet", obj: `{spec: {podManagementPolicy: x, updateStrategy: {type: OnDelete, rollingUpdate: {}}, ` + spec + `}}`,
			want: `spec.podManagementPolicy: Unsupported value: "x": supported values: "OrderedReady", "Parallel"
spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'`},
		{name: "service changed", kind: "StatefulSet", old: `{spec: {serviceName: s, ` + spec + `}}`, obj: `{spec: {serviceName: t, ` + spec + `}}`,
			want: "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"},
		{name: "replicas changed", kind: "StatefulSet", old: `{spec: {replicas: 1, ` + spec + `}}`, obj: `{spec: {replicas: 2, ` + spec + `}}`},
		{name: "valid", kind: "DaemonSet", obj: `{spec: {` + spec + `}}`},
		{name: "updates", kind: "DaemonSet", obj: `{spec: {updateStrategy: {rollingUpdate: {maxSurge: 1}}, ` + spec + `}}`,
			want: `spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero`},
		{name: "from template", kind: "ReplicationController", obj: `{spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
		{name: "nothing", kind: "ReplicationController", obj: `{}`, want: "spec.selector: Required value\nspec.template: Required value"},
		{name: "template", kind: "PodTemplate", obj: `{}`, want: "template.spec.containers: Required value"},
		{name: "claim", kind: "PersistentVolumeClaim", obj: `{spec: {accessModes: [x], resources: {requests: {storage: 0}}, dataSourceRef: {kind: A, name: b}}}`,
			want: `spec.accessModes: Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
spec.resources[storage]: Invalid value: "0": must be greater than zero
spec.dataSource: Invalid value: "A": must be 'PersistentVolumeClaim' when referencing the default apiGroup
spec.dataSourceRef: Invalid value: "A": must be 'PersistentVolumeClaim' when referencing the default apiGroup`},
		{name: "volume", kind: "PersistentVolume", obj: `{spec: {}}`, want: "spec.accessModes: Required value\nspec.capacity: Required value\nspec: Required value: must specify a volume type"},
		{name: "valid", kind: "PersistentVolume", obj: `{spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}}`},
	})
}
