package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newPod is a valid pod, changed and then filled in with defaults.
func newPod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img"}}},
	}
	if change != nil {
		change(p)
	}
	defaultPod(p)
	return p
}

// lines are errors as a client reads them.
func lines(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func TestPodDefaults(t *testing.T) {
	p := newPod(func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		c.Env = []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		p.Spec.HostNetwork = true
		p.Spec.DeprecatedServiceAccount = "old"
		p.Spec.Volumes = []corev1.Volume{{Name: "e"}, {Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}}}
	})
	want := corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x", DefaultMode: new(int32(420))}}},
		},
		Containers: []corev1.Container{{
			Name: "c", Image: "img", ImagePullPolicy: corev1.PullAlways,
			Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}},
			Env:   []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}},
			Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			},
			LivenessProbe: &corev1.Probe{
				ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Scheme: "HTTP", Port: intstr.FromInt32(80)}},
				TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
			},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		}},
		RestartPolicy: "Always", DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: new(int64(30)), SecurityContext: &corev1.PodSecurityContext{},
		EnableServiceLinks: new(true), HostNetwork: true, ServiceAccountName: "old", DeprecatedServiceAccount: "old",
	}
	if diff := cmp.Diff(want, p.Spec); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"a": "Always", "a:latest": "Always", "r.example:5000/a": "Always", "r.example:5000/a/b:latest": "Always",
		"a:1": "IfNotPresent", "r:5000/a:1": "IfNotPresent", "a@sha256:00": "IfNotPresent", "a:latest@sha256:00": "Always",
		"": "IfNotPresent", "A": "IfNotPresent", "a/": "IfNotPresent", "a b": "IfNotPresent", "localhost/a": "Always", "Reg/a": "Always",
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("pullPolicy(%q) = %s, want %s", image, got, want)
		}
	}
}

func TestValidatePod(t *testing.T) {
	container := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	mounted := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	quantity := func(name corev1.ResourceName, q string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(q)}
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string // one error a line; empty: valid
	}{
		{name: "valid"},
		{name: "no containers", change: func(p *corev1.Pod) { p.Spec.Containers = nil }, want: `spec.containers: Required value`},
		{name: "no name", change: container(func(c *corev1.Container) { c.Name = "" }), want: `spec.containers[0].name: Required value`},
		{name: "bad name", change: container(func(c *corev1.Container) { c.Name = "A_b" }),
			want: `spec.containers[0].name: Invalid value: "A_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		{name: "no image", change: container(func(c *corev1.Container) { c.Image = "" }), want: `spec.containers[0].image: Required value`},
		{name: "padded image", change: container(func(c *corev1.Container) { c.Image = " a" }), want: `spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace`},
		{name: "doubled name", change: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) },
			want: `spec.containers[1].name: Duplicate value: "c"`},
		{name: "doubled init name", change: func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers }, want: `spec.initContainers[0].name: Duplicate value: "c"`},
		{name: "pull policy", change: container(func(c *corev1.Container) { c.ImagePullPolicy = "Sometimes" }),
			want: `spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`},
		{name: "restart policy", change: func(p *corev1.Pod) { p.Spec.RestartPolicy = "Perhaps" },
			want: `spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"`},
		{name: "DNS policy", change: func(p *corev1.Pod) { p.Spec.DNSPolicy = "x" },
			want: `spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`},
		{name: "DNS none", change: func(p *corev1.Pod) { p.Spec.DNSPolicy = "None" }, want: "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"},
		{name: "ports", change: container(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {Name: "http", ContainerPort: 70000}, {Protocol: "X", HostPort: -1}}
		}), want: `spec.containers[0].ports[1].name: Duplicate value: "http"
spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive
spec.containers[0].ports[2].containerPort: Required value
spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive
spec.containers[0].ports[2].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`},
		{name: "host port twice", change: container(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 81, HostPort: 80}}
		}), want: `spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"`},
		{name: "host network", change: func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81}}
		}, want: "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"},
		{name: "env", change: container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{}, {Name: "a=b"}, {Name: "A", ValueFrom: &corev1.EnvVarSource{}},
				{Name: "B", Value: "x", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.priority"}}},
				{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
				{Name: "D", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['a']"}}}}
		}), want: `spec.containers[0].env[0].name: Required value
spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='
` + "spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`" + `
spec.containers[0].env[3].valueFrom.fieldRef.fieldPath: Invalid value: "spec.priority": error converting fieldPath: field label not supported: spec.priority
` + "spec.containers[0].env[3].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty" + `
spec.containers[0].env[4].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`},
		{name: "envFrom", change: container(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{}} }),
			want: "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"},
		{name: "resources", change: container(func(c *corev1.Container) {
			c.Resources.Requests = quantity("memory", "2Gi")
			c.Resources.Limits = quantity("memory", "1Gi")
		}), want: `spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi`},
		{name: "negative", change: container(func(c *corev1.Container) { c.Resources.Requests = quantity("cpu", "-1") }),
			want: `spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		{name: "unknown resource", change: container(func(c *corev1.Container) { c.Resources.Requests = quantity("gold", "1") }),
			want: `spec.containers[0].resources.requests[gold]: Invalid value: "gold": must be a standard resource type or fully qualified
spec.containers[0].resources.requests[gold]: Invalid value: "gold": must be a standard resource for containers`},
		{name: "extended resource", change: container(func(c *corev1.Container) { c.Resources.Requests = quantity("example.com/gpu", "1") }),
			want: `spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`},
		{name: "mount", change: container(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{{Name: "v"}} }),
			want: `spec.containers[0].volumeMounts[0].name: Not found: "v"
spec.containers[0].volumeMounts[0].mountPath: Required value`},
		{name: "volume types", change: mounted(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}, ConfigMap: &corev1.ConfigMapVolumeSource{}}),
			want: `spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type`},
		{name: "host path", change: mounted(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a/../b", Type: new(corev1.HostPathType("x"))}}),
			want: `spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'
spec.volumes[0].hostPath.type: Unsupported value: "x": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`},
		{name: "items", change: mounted(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: new(int32(01000)), Items: []corev1.KeyToPath{{Path: "/x"}}}}),
			want: `spec.volumes[0].configMap.name: Required value
spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive
spec.volumes[0].configMap.items[0].key: Required value
spec.volumes[0].configMap.items[0].path: Invalid value: "/x": must be a relative path`},
		{name: "token without account", change: mounted(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}),
			want: `spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set`},
		{name: "probes", change: container(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{SuccessThreshold: 2}
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("a_b")}, Exec: &corev1.ExecAction{}}}
		}), want: `spec.containers[0].livenessProbe: Required value: must specify a handler type
spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
spec.containers[0].readinessProbe.exec.command: Required value
spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`},
		{name: "init probe", change: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}}}
		}, want: `spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`},
		{name: "security", change: container(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(-1)), SeccompProfile: &corev1.SeccompProfile{}}
		}), want: `spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
spec.containers[0].securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set`},
		{name: "tolerations", change: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{}, {Key: "a", Operator: "Exists", Value: "x"}, {Key: "b", TolerationSeconds: new(int64(1))}}
		}, want: "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"\n" +
			"spec.tolerations[1].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'\n" +
			"spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"},
		{name: "affinity", change: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{
				NodeAffinity:    &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone"}}}},
			}
		}, want: `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term
spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100`},
		{name: "spread", change: func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "z", WhenUnsatisfiable: "ScheduleAnyway", MaxSkew: 1}, {WhenUnsatisfiable: "x"}}
		}, want: `spec.topologySpreadConstraints[1].maxSkew: Invalid value: 0: must be greater than zero
spec.topologySpreadConstraints[1].topologyKey: Required value: can not be empty
spec.topologySpreadConstraints[1].whenUnsatisfiable: Unsupported value: "x": supported values: "DoNotSchedule", "ScheduleAnyway"`},
		{name: "gated on a node", change: func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "n", []corev1.PodSchedulingGate{{Name: "g"}}
		}, want: `spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared`},
		{name: "deadline", change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(0)) },
			want: `spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`},
		{name: "ephemeral", change: func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "e", Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}}
		}, want: `spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container
spec.ephemeralContainers: Forbidden: cannot be set on create`},
		{name: "windows", change: func(p *corev1.Pod) {
			p.Spec.OS, p.Spec.HostPID = &corev1.PodOS{Name: "windows"}, true
		}, want: `spec.hostPID: Forbidden: cannot be set for a windows pod`},
		{name: "mirror", change: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			want: `metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`},
		{name: "sysctl", change: func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.core.somaxconn"}}}
		}, want: `spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when 'hostNetwork' is true`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := strings.Join(lines(validatePod(newPod(tc.change))), "\n")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
