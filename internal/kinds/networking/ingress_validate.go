package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// https://kubernetes.io/docs/concepts/services-networking/ingress/

// annotatedClass named the class of an ingress before the field did.
const annotatedClass = "kubernetes.io/ingress.class"

func validateIngress(in *networkingv1.Ingress) field.ErrorList {
	var c check.Errors
	if class, ok := in.Annotations[annotatedClass]; ok && in.Spec.IngressClassName != nil && class != *in.Spec.IngressClassName {
		c.Invalid(field.NewPath("annotations").Child(annotatedClass), "", class, "must match `ingressClassName` when both are specified")
	}
	c.Add(validateIngressSpec(&in.Spec))
	return c.List
}

func validateIngressSpec(spec *networkingv1.IngressSpec) field.ErrorList {
	var c check.Errors
	path := field.NewPath("spec")
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		c.Invalid(path, "", spec.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if spec.DefaultBackend != nil {
		validateBackend(&c, spec.DefaultBackend, path.Child("defaultBackend"))
	}
	for i := range spec.Rules {
		validateIngressRule(&c, &spec.Rules[i], path.Child("rules").Index(i))
	}
	for i, tls := range spec.TLS {
		p := path.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			validateHost(&c, host, p.Child("hosts").Index(j), "")
		}
		if tls.SecretName != "" {
			c.Subdomain(p, "secretName", tls.SecretName)
		}
	}
	if class := spec.IngressClassName; class != nil {
		c.Subdomain(path, "ingressClassName", *class)
	}
	return c.List
}

// validateHost wants a DNS name that may begin with a "*" in place of a label.
func validateHost(c *check.Errors, host string, path *field.Path, name string) {
	if strings.Contains(host, "*") {
		c.Text(path, name, host, validation.IsWildcardDNS1123Subdomain(host))
	} else {
		c.Subdomain(path, name, host)
	}
}

func validateIngressRule(c *check.Errors, r *networkingv1.IngressRule, path *field.Path) {
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			c.Invalid(path, "host", r.Host, "must be a DNS name, not an IP address")
		}
		validateHost(c, r.Host, path, "host")
	}
	if r.HTTP == nil {
		return
	}
	p := path.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		c.Required(p, "", "")
	}
	for i := range r.HTTP.Paths {
		validateIngressPath(c, &r.HTTP.Paths[i], p.Index(i))
	}
}

var (
	// Parts of a path that proxies take for others than they look like.
	ambiguous    = []string{"//", "/./", "/../", "%2f", "%2F"}
	ambiguousEnd = []string{"/..", "/."}
)

func validateIngressPath(c *check.Errors, path *networkingv1.HTTPIngressPath, at *field.Path) {
	if path.PathType == nil {
		c.Required(at, "pathType", "pathType must be specified")
		return
	}
	absolute := strings.HasPrefix(path.Path, "/")
	switch *path.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			c.Invalid(at, "path", path.Path, "must be an absolute path")
		}
		for _, part := range ambiguous {
			if strings.Contains(path.Path, part) {
				c.Invalid(at, "path", path.Path, "must not contain '"+part+"'")
			}
		}
		for _, end := range ambiguousEnd {
			if strings.HasSuffix(path.Path, end) {
				c.Invalid(at, "path", path.Path, "cannot end with '"+end+"'")
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if path.Path != "" && !absolute {
			c.Invalid(at, "path", path.Path, "must be an absolute path")
		}
	default:
		check.Among(c, at, "pathType", *path.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	validateBackend(c, &path.Backend, at.Child("backend"))
}

func validateBackend(c *check.Errors, b *networkingv1.IngressBackend, path *field.Path) {
	switch {
	case b.Resource != nil && b.Service != nil:
		c.Invalid(path, "", "", "cannot set both resource and service backends")
	case b.Resource != nil:
		validateReference(c, b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, path.Child("resource"))
	case b.Service != nil:
		s, port := b.Service, path.Child("service", "port")
		if s.Name == "" {
			c.Required(path.Child("service"), "name", "")
		} else {
			c.Text(path.Child("service"), "name", s.Name, validation.IsDNS1035Label(s.Name))
		}
		switch byName, byNumber := s.Port.Name != "", s.Port.Number != 0; {
		case byName && byNumber:
			c.Invalid(path, "", "", "cannot set both port name & port number")
		case byName:
			c.Text(port, "name", s.Port.Name, validation.IsValidPortName(s.Port.Name))
		case byNumber:
			c.Port(port, "number", s.Port.Number)
		default:
			c.Required(path, "", "port name or number is required")
		}
	default:
		c.Invalid(path, "", "", "resource or service backend is required")
	}
}

// validateReference checks a reference to an object of any kind.
func validateReference(c *check.Errors, group *string, kind, name string, path *field.Path) {
	if group != nil {
		c.Subdomain(path, "apiGroup", *group)
	}
	c.NamedSegment(path, "kind", kind, "kind is required")
	c.NamedSegment(path, "name", name, "name is required")
}

func validateIngressStatus(in, old *networkingv1.Ingress) field.ErrorList {
	var c check.Errors
	var before []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		before = append(before, point.IP)
	}
	for i, point := range in.Status.LoadBalancer.Ingress {
		p := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			c.Add(validation.IsValidIPForLegacyField(p.Child("ip"), point.IP, true, before))
		}
		if point.Hostname != "" {
			c.Subdomain(p, "hostname", point.Hostname)
			if netutils.ParseIPSloppy(point.Hostname) != nil {
				c.Invalid(p, "hostname", point.Hostname, "must be a DNS name, not an IP address")
			}
		}
	}
	return c.List
}

func ingressWarnings(in, old *networkingv1.Ingress) []string {
	if _, ok := in.Annotations[annotatedClass]; ok && old == nil {
		return []string{`annotation "` + annotatedClass + `" is deprecated, please use 'spec.ingressClassName' instead`}
	}
	return nil
}
