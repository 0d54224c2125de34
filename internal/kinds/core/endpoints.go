package core

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func endpoints() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "endpoints"}, Kind: "Endpoints", Singular: "endpoints",
		ShortNames: []string{"ep"}, Namespaced: true,
		StoragePrefix:            "/registry/services/endpoints/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Endpoints, corev1.EndpointsList](v1, defaultEndpoints)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateEndpoints),
		ValidateUpdate:           strategy.ValidateUpdate(validateEndpointsUpdate),
		Warnings:                 strategy.Warnings(endpointsWarnings),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Endpoints", "string", corev1.Endpoints{}.SwaggerDoc()["subsets"], func(e *corev1.Endpoints) any { return endpointsCell(e) }),
			strategy.Age(),
		},
	}
}

func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var c check.Errors
	for i := range e.Subsets {
		s, p := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			c.Required(p, "", "must specify `addresses` or `notReadyAddresses`")
		}
		for j := range s.Addresses {
			validateEndpointAddress(&c, &s.Addresses[j], p.Child("addresses").Index(j))
		}
		for j := range s.NotReadyAddresses {
			validateEndpointAddress(&c, &s.NotReadyAddresses[j], p.Child("notReadyAddresses").Index(j))
		}
		for j := range s.Ports {
			port, p := &s.Ports[j], p.Child("ports").Index(j)
			if port.Name != "" {
				c.Label(p, "name", port.Name)
			} else if len(s.Ports) > 1 {
				c.Required(p, "name", "")
			}
			c.Port(p, "port", port.Port)
			validateProtocol(&c, p, port.Protocol)
			if port.AppProtocol != nil {
				c.Qualified(p, "appProtocol", *port.AppProtocol)
			}
		}
	}
	return c.List
}

// validateEndpointsUpdate lets subsets stay that were valid once.
func validateEndpointsUpdate(e, old *corev1.Endpoints) field.ErrorList {
	errs := validateEndpoints(e)
	if len(errs) > 0 && equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
		return nil
	}
	return errs
}

func validateEndpointAddress(c *check.Errors, a *corev1.EndpointAddress, path *field.Path) {
	c.Add(validation.IsValidIPForLegacyField(path.Child("ip"), a.IP, true, nil))
	if a.Hostname != "" {
		c.Label(path, "hostname", a.Hostname)
	}
	if a.NodeName != nil {
		c.Subdomain(path, "nodeName", *a.NodeName)
	}
	ValidateEndpointIP(c, a.IP, path.Child("ip"))
}

// endpointsWarnings: the kind is deprecated, and what keeps one anyway would
// rather not be told at every write.
func endpointsWarnings(e, old *corev1.Endpoints) []string {
	if old == nil {
		return []string{"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
	}
	return nil
}

// ValidateEndpointIP refuses addresses that mean another machine on every
// machine: traffic sent there would reach what the sender can reach and the
// owner of the object should not.
func ValidateEndpointIP(c *check.Errors, address string, path *field.Path) {
	ip := netutils.ParseIPSloppy(address)
	switch {
	case ip == nil:
		c.Invalid(path, "", address, "must be a valid IP address")
	case ip.IsUnspecified():
		c.Invalid(path, "", address, fmt.Sprintf("may not be unspecified (%v)", address))
	case ip.IsLoopback():
		c.Invalid(path, "", address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	case ip.IsLinkLocalUnicast():
		c.Invalid(path, "", address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	case ip.IsLinkLocalMulticast():
		c.Invalid(path, "", address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
}

// shownEndpoints is how many addresses fit into a cell.
const shownEndpoints = 3

func endpointsCell(e *corev1.Endpoints) string {
	var list []string
	count := 0
	add := func(s string) {
		if count++; len(list) < shownEndpoints {
			list = append(list, s)
		}
	}
	for i := range e.Subsets {
		s := &e.Subsets[i]
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				add(a.IP)
			}
		}
		for _, port := range s.Ports {
			for _, a := range s.Addresses {
				add(net.JoinHostPort(a.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	switch text := strings.Join(list, ","); {
	case count > shownEndpoints:
		return fmt.Sprintf("%s + %d more...", text, count-shownEndpoints)
	case count == 0:
		return "<none>"
	default:
		return text
	}
}
