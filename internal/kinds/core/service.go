package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func service() *kinds.Kind {
	split := strategy.Of[corev1.Service]()
	status := split.Status()
	status.ValidateUpdate = strategy.ValidateUpdate(validateServiceStatus)
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "services"}, Kind: "Service", Singular: "service",
		ShortNames: []string{"svc"}, Categories: []string{"all"}, Namespaced: true,
		StoragePrefix:            "/registry/services/specs/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Service, corev1.ServiceList](v1, defaultService)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		ValidateName:             validation.NameIsDNSLabel,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateService),
		ValidateUpdate:           strategy.ValidateUpdate(validateServiceUpdate),
		Warnings:                 strategy.Warnings(serviceWarnings),
		Subresources: map[string]*kinds.Subresource{
			"proxy":  {GroupVersionKind: v1.WithKind("ServiceProxyOptions"), Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"status": status,
		},
		SelectableFields: strategy.Fields(func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		}),
		FieldNames: []string{"spec.clusterIP", "spec.type"},
		Columns:    serviceColumns(),
	}
}

func serviceColumns() []kinds.Column {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Type", "string", doc["type"], func(s *corev1.Service) any { return string(s.Spec.Type) }),
		strategy.Column("Cluster-IP", "string", doc["clusterIP"], func(s *corev1.Service) any {
			if len(s.Spec.ClusterIPs) > 0 {
				return s.Spec.ClusterIPs[0]
			}
			return orNone(s.Spec.ClusterIP)
		}),
		strategy.Column("External-IP", "string", doc["externalIPs"], func(s *corev1.Service) any { return externalIP(s) }),
		strategy.Column("Port(s)", "string", doc["ports"], func(s *corev1.Service) any { return orNone(ports(s.Spec.Ports)) }),
		strategy.Age(),
		strategy.Wide("Selector", "string", doc["selector"], func(s *corev1.Service) any { return labels.FormatLabels(s.Spec.Selector) }),
	}
}

// externalIP is where a service is reached from without. Addresses of load
// balancers are shown in full, where upstream cuts them off without -o wide.
func externalIP(s *corev1.Service) string {
	external := strings.Join(s.Spec.ExternalIPs, ",")
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(external)
	case corev1.ServiceTypeLoadBalancer:
		var list []string
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				list = append(list, in.IP)
			} else if in.Hostname != "" {
				list = append(list, in.Hostname)
			}
		}
		slices.Sort(list)
		list = append(slices.Compact(list), s.Spec.ExternalIPs...)
		if len(list) == 0 {
			return "<pending>"
		}
		return strings.Join(list, ",")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}

func ports(list []corev1.ServicePort) string {
	var b strings.Builder
	for i := range list {
		p := &list[i]
		if i > 0 {
			b.WriteByte(',')
		}
		if p.NodePort > 0 {
			fmt.Fprintf(&b, "%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			fmt.Fprintf(&b, "%d/%s", p.Port, p.Protocol)
		}
	}
	return b.String()
}

// external tells whether a service is meant to be reached from without.
func external(s *corev1.Service) bool {
	t := s.Spec.Type
	return t == corev1.ServiceTypeLoadBalancer || t == corev1.ServiceTypeNodePort ||
		t == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

func defaultService(s *corev1.Service) {
	spec := &s.Spec
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	switch c := spec.SessionAffinityConfig; spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if external(s) && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	switch spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if spec.InternalTrafficPolicy == nil {
			spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
		}
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		if spec.AllocateLoadBalancerNodePorts == nil {
			spec.AllocateLoadBalancerNodePorts = new(true)
		}
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
				in.IPMode = new(corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}
