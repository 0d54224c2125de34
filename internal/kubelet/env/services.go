package env

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// services are the variables by which a container finds the services of its
// namespace, and always the API server's. See
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
func services(src Sources, pod *v1.Pod) map[string]string {
	out := map[string]string{}
	if src.Services == nil {
		return out
	}
	for _, s := range src.Services(metaDefault) {
		if s.Name == "kubernetes" {
			service(out, s)
		}
	}
	if pod.Spec.EnableServiceLinks != nil && !*pod.Spec.EnableServiceLinks {
		return out
	}
	for _, s := range src.Services(pod.Namespace) {
		service(out, s)
	}
	return out
}

const metaDefault = "default"

func service(out map[string]string, s *v1.Service) {
	ip := s.Spec.ClusterIP
	if ip == "" || ip == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return
	}
	name := upper(s.Name)
	first := s.Spec.Ports[0]
	out[name+"_SERVICE_HOST"] = ip
	out[name+"_SERVICE_PORT"] = strconv.Itoa(int(first.Port))
	for i, p := range s.Spec.Ports {
		if p.Name != "" {
			out[name+"_SERVICE_PORT_"+upper(p.Name)] = strconv.Itoa(int(p.Port))
		}
		proto := string(p.Protocol)
		if proto == "" {
			proto = string(v1.ProtocolTCP)
		}
		url := fmt.Sprintf("%s://%s", strings.ToLower(proto), net.JoinHostPort(ip, strconv.Itoa(int(p.Port))))
		if i == 0 {
			out[name+"_PORT"] = url
		}
		prefix := fmt.Sprintf("%s_PORT_%d_%s", name, p.Port, strings.ToUpper(proto))
		out[prefix] = url
		out[prefix+"_PROTO"] = strings.ToLower(proto)
		out[prefix+"_PORT"] = strconv.Itoa(int(p.Port))
		out[prefix+"_ADDR"] = ip
	}
}

func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
