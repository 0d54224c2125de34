package pod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestHostname(t *testing.T) {
	d := &Deps{ClusterDomain: "cluster.local"}
	yes := true
	for _, c := range []struct {
		pod  v1.Pod
		want string
	}{
		{v1.Pod{Spec: v1.PodSpec{}}, ""},
		{v1.Pod{Spec: v1.PodSpec{Hostname: "h", Subdomain: "s"}}, "h"},
		{v1.Pod{Spec: v1.PodSpec{Hostname: "h", Subdomain: "s", SetHostnameAsFQDN: &yes}}, "h.s.ns.svc.cluster.local"},
		{v1.Pod{Spec: v1.PodSpec{Hostname: strings.Repeat("a", 62) + "-b"}}, strings.Repeat("a", 62)},
	} {
		c.pod.Namespace = "ns"
		if got := d.hostname(&c.pod); got != c.want {
			t.Errorf("hostname of %+v is %q, want %q", c.pod.Spec, got, c.want)
		}
	}
}

func TestDNS(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("# comment\nnameserver 9.9.9.9\nsearch host.example .\noptions ndots:2 edns0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := &Deps{ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}, ResolvConf: conf}
	three := "3"
	for name, c := range map[string]struct {
		spec v1.PodSpec
		want string
	}{
		"cluster":             {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, "10.96.0.10 | ns.svc.cluster.local svc.cluster.local cluster.local host.example | ndots:5"},
		"host network":        {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, "9.9.9.9 | host.example | ndots:2 edns0"},
		"host network, too":   {v1.PodSpec{DNSPolicy: v1.DNSClusterFirstWithHostNet, HostNetwork: true}, "10.96.0.10 | ns.svc.cluster.local svc.cluster.local cluster.local host.example | ndots:5"},
		"default":             {v1.PodSpec{DNSPolicy: v1.DNSDefault}, "9.9.9.9 | host.example | ndots:2 edns0"},
		"none":                {v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}}}, "1.1.1.1 |  | "},
		"with an own setting": {v1.PodSpec{DNSPolicy: v1.DNSDefault, DNSConfig: &v1.PodDNSConfig{Nameservers: []string{"9.9.9.9", "1.1.1.1"}, Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: &three}}}}, "9.9.9.9 1.1.1.1 | host.example | edns0 ndots:3"},
	} {
		p := &v1.Pod{Spec: c.spec}
		p.Namespace = "ns"
		got, err := d.dns(p)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(got.Servers, " ") + " | " + strings.Join(got.Searches, " ") + " | " + strings.Join(got.Options, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func TestNamespacesAndPorts(t *testing.T) {
	yes := true
	p := &v1.Pod{Spec: v1.PodSpec{HostPID: true, ShareProcessNamespace: &yes,
		Containers: []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 53, HostPort: 5353, Protocol: v1.ProtocolUDP}}}}}}
	if n := namespaces(p); n.Pid != runtimeapi.NamespaceMode_NODE || n.Network != runtimeapi.NamespaceMode_POD || n.Ipc != runtimeapi.NamespaceMode_POD {
		t.Errorf("namespaces are %v", n)
	}
	p.Spec.HostPID = false
	if n := namespaces(p); n.Pid != runtimeapi.NamespaceMode_POD {
		t.Errorf("namespaces are %v", n)
	}
	m := portMappings(p)
	if len(m) != 1 || m[0].HostPort != 5353 || m[0].ContainerPort != 53 || m[0].Protocol != runtimeapi.Protocol_UDP {
		t.Errorf("port mappings are %v", m)
	}
}

// TestPrivileged: a sandbox is told of its most privileged container, of
// whatever kind that is.
func TestPrivileged(t *testing.T) {
	yes, no := true, false
	all, none := &v1.SecurityContext{Privileged: &yes}, &v1.SecurityContext{Privileged: &no}
	for i, c := range []struct {
		init, plain, added *v1.SecurityContext
		want               bool
	}{
		{nil, nil, nil, false}, {none, none, none, false}, {all, nil, nil, true}, {nil, all, nil, true}, {none, none, all, true},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{
			InitContainers:      []v1.Container{{SecurityContext: c.init}},
			Containers:          []v1.Container{{}, {SecurityContext: c.plain}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: c.added}}},
		}}
		if got := sandboxSecurity(p).Privileged; got != c.want {
			t.Errorf("case %d: privileged is %t", i, got)
		}
	}
}

func TestCheckNonRoot(t *testing.T) {
	yes, no := true, false
	zero, one := int64(0), int64(1)
	for i, c := range []struct {
		user     *int64
		nonRoot  *bool
		imageUID *int64
		image    string
		ok       bool
	}{
		{nil, nil, &zero, "", true}, {&zero, &no, nil, "", true},
		{&zero, &yes, nil, "", false}, {&one, &yes, &zero, "", true},
		{nil, &yes, &zero, "", false}, {nil, &yes, &one, "", true},
		{nil, &yes, nil, "app", false}, {nil, &yes, nil, "", false},
	} {
		err := checkNonRoot(&v1.Pod{}, &v1.Container{Name: "c"}, c.user, c.nonRoot, c.imageUID, c.image)
		if (err == nil) != c.ok {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

func TestGroups(t *testing.T) {
	g := int64(7)
	p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{FSGroup: &g, SupplementalGroups: []int64{3}}}}
	if got := groups(p); !slices.Equal(got, []int64{3, 7}) {
		t.Errorf("groups are %v", got)
	}
}
