package pod

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// sandboxConfig is what the runtime is told of a pod as a whole.
func (d *Deps) sandboxConfig(pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	if h := pod.Spec.HostUsers; h != nil && !*h {
		// To run it in the host's user namespace would be less than it asks.
		return nil, errors.New("hostUsers: false is not supported: this node has no user namespaces for pods")
	}
	dns, err := d.dns(pod)
	if err != nil {
		return nil, err
	}
	c := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		LogDirectory: d.logDir(pod),
		DnsConfig:    dns,
		Labels:       cri.PodLabels(pod, d.Owner),
		Annotations:  pod.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: sandboxSecurity(pod),
			Sysctls:         sysctls(pod),
		},
	}
	if d.Cgroups != nil {
		c.Linux.CgroupParent = d.Cgroups.Parent(pod)
	}
	if !pod.Spec.HostNetwork {
		// With the node's network the runtime refuses a hostname.
		c.Hostname = d.hostname(pod)
		c.PortMappings = portMappings(pod)
	}
	return c, nil
}

const maxHostname = 63

// hostname is the pod's, cut to what the kernel takes.
func (d *Deps) hostname(pod *v1.Pod) string {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		return *o
	}
	h := pod.Name
	if pod.Spec.Hostname != "" {
		h = pod.Spec.Hostname
	}
	if len(h) > maxHostname {
		h = strings.TrimRight(h[:maxHostname], "-.")
	}
	if pod.Spec.SetHostnameAsFQDN != nil && *pod.Spec.SetHostnameAsFQDN {
		if full := d.fqdn(pod, h); full != "" {
			return full
		}
	}
	return h
}

// fqdn is the pod's full name in the cluster; empty without a subdomain.
func (d *Deps) fqdn(pod *v1.Pod, host string) string {
	if pod.Spec.Subdomain == "" {
		return ""
	}
	return fmt.Sprintf("%s.%s.%s.svc.%s", host, pod.Spec.Subdomain, pod.Namespace, d.ClusterDomain)
}

func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	add := func(cs []v1.Container) {
		for i := range cs {
			for _, p := range cs[i].Ports {
				if p.HostPort == 0 {
					continue
				}
				m := &runtimeapi.PortMapping{HostIp: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort}
				switch p.Protocol {
				case v1.ProtocolUDP:
					m.Protocol = runtimeapi.Protocol_UDP
				case v1.ProtocolSCTP:
					m.Protocol = runtimeapi.Protocol_SCTP
				}
				out = append(out, m)
			}
		}
	}
	add(pod.Spec.InitContainers)
	add(pod.Spec.Containers)
	return out
}

func sysctls(pod *v1.Pod) map[string]string {
	sc := pod.Spec.SecurityContext
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	out := make(map[string]string, len(sc.Sysctls))
	for _, s := range sc.Sysctls {
		out[strings.ReplaceAll(s.Name, "/", ".")] = s.Value
	}
	return out
}

func namespaces(pod *v1.Pod) *runtimeapi.NamespaceOption {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostPID {
		o.Pid = runtimeapi.NamespaceMode_NODE
	} else if s := pod.Spec.ShareProcessNamespace; s != nil && *s {
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	return o
}

func sandboxSecurity(pod *v1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
	s := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod),
		Privileged:       privileged(pod),
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			s.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
		}
		if sc.RunAsGroup != nil && sc.RunAsUser != nil {
			s.RunAsGroup = &runtimeapi.Int64Value{Value: *sc.RunAsGroup}
		}
		s.SupplementalGroups = groups(pod)
		s.SupplementalGroupsPolicy = groupsPolicy(pod)
	}
	return s
}

// privileged tells whether any container of the pod is: then its sandbox must
// be. One that was added to a pod that runs counts as well: the runtime asks
// the sandbox's configuration as it is told with each container, and that of
// the sandbox that runs stays as it was made.
func privileged(pod *v1.Pod) bool {
	is := func(s *v1.SecurityContext) bool { return s != nil && s.Privileged != nil && *s.Privileged }
	plain := func(c v1.Container) bool { return is(c.SecurityContext) }
	return slices.ContainsFunc(pod.Spec.Containers, plain) || slices.ContainsFunc(pod.Spec.InitContainers, plain) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return is(c.SecurityContext) })
}

func groups(pod *v1.Pod) []int64 {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return nil
	}
	out := slices.Clone(sc.SupplementalGroups)
	if sc.FSGroup != nil && !slices.Contains(out, *sc.FSGroup) {
		out = append(out, *sc.FSGroup)
	}
	return out
}

func groupsPolicy(pod *v1.Pod) runtimeapi.SupplementalGroupsPolicy {
	if sc := pod.Spec.SecurityContext; sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

// dns is the resolver configuration by the pod's policy. See
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy.
func (d *Deps) dns(pod *v1.Pod) (*runtimeapi.DNSConfig, error) {
	out := &runtimeapi.DNSConfig{}
	policy := pod.Spec.DNSPolicy
	cluster := policy == v1.DNSClusterFirstWithHostNet || !pod.Spec.HostNetwork && (policy == v1.DNSClusterFirst || policy == "")
	switch {
	case policy == v1.DNSNone:
	case cluster && len(d.ClusterDNS) > 0:
		host, err := readResolvConf(d.ResolvConf)
		if err != nil {
			return nil, err
		}
		out.Servers = slices.Clone(d.ClusterDNS)
		out.Searches = append([]string{
			pod.Namespace + ".svc." + d.ClusterDomain, "svc." + d.ClusterDomain, d.ClusterDomain}, host.Searches...)
		out.Options = []string{"ndots:5"}
	default:
		host, err := readResolvConf(d.ResolvConf)
		if err != nil {
			return nil, err
		}
		out = host
	}
	if extra := pod.Spec.DNSConfig; extra != nil {
		out.Servers = unique(append(out.Servers, extra.Nameservers...))
		out.Searches = unique(append(out.Searches, extra.Searches...))
		for _, o := range extra.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			out.Options = slices.DeleteFunc(out.Options, func(have string) bool {
				name, _, _ := strings.Cut(have, ":")
				return name == o.Name
			})
			out.Options = append(out.Options, text)
		}
	}
	return out, nil
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// readResolvConf reads the node's resolver configuration; none is an empty
// one.
func readResolvConf(path string) (*runtimeapi.DNSConfig, error) {
	out := &runtimeapi.DNSConfig{}
	if path == "" {
		return out, nil
	}
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return out, nil
	} else if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], ";") {
			continue
		}
		switch f[0] {
		case "nameserver":
			if net.ParseIP(strings.SplitN(f[1], "%", 2)[0]) != nil {
				out.Servers = append(out.Servers, f[1])
			}
		case "search", "domain":
			out.Searches = slices.DeleteFunc(slices.Clone(f[1:]), func(s string) bool { return s == "." })
		case "options":
			out.Options = f[1:]
		}
	}
	return out, nil
}
