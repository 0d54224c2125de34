package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func endpointSlice() *kinds.Kind {
	split := strategy.Counted[discoveryv1.EndpointSlice]()
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "endpointslices"}, Kind: "EndpointSlice", Singular: "endpointslice",
		Namespaced:               true,
		StoragePrefix:            "/registry/endpointslices/",
		Versions:                 []kinds.Version{strategy.Version[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](v1, defaultEndpointSlice)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Validate:                 strategy.Validate(validateEndpointSlice),
		ValidateUpdate:           strategy.ValidateUpdate(validateEndpointSliceUpdate),
		Warnings:                 strategy.Warnings(endpointSliceWarnings),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("AddressType", "string", doc["addressType"], func(s *discoveryv1.EndpointSlice) any { return string(s.AddressType) }),
			strategy.Column("Ports", "string", doc["ports"], func(s *discoveryv1.EndpointSlice) any { return portsCell(s.Ports) }),
			strategy.Column("Endpoints", "string", doc["endpoints"], func(s *discoveryv1.EndpointSlice) any { return addressesCell(s.Endpoints) }),
			strategy.Age(),
		},
	}
}

func endpointSliceWarnings(s, _ *discoveryv1.EndpointSlice) []string {
	var out []string
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	for i := range s.Endpoints {
		for j, ip := range s.Endpoints[i].Addresses {
			out = append(out, core.AddressWarnings(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), ip)...)
		}
	}
	return out
}

// shown is how many items fit into a cell.
const shown = 3

func cell(list []string) string {
	switch {
	case len(list) == 0:
		return "<unset>"
	case len(list) > shown:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shown], ","), len(list)-shown)
	}
	return strings.Join(list, ",")
}

func portsCell(ports []discoveryv1.EndpointPort) string {
	var list []string
	for _, p := range ports {
		switch {
		case p.Port != nil:
			list = append(list, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			list = append(list, *p.Name)
		default:
			list = append(list, "*")
		}
	}
	return cell(list)
}

func addressesCell(endpoints []discoveryv1.Endpoint) string {
	var list []string
	for _, e := range endpoints {
		list = append(list, e.Addresses...)
	}
	return cell(list)
}

func defaultEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

// Limits of a slice.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxTopology  = 16
	maxZoneHints = 8
)

func validateEndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList {
	var c check.Errors
	check.OneOf(&c, field.NewPath("addressType"), "", s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	path := field.NewPath("endpoints")
	if len(s.Endpoints) > maxEndpoints {
		c.TooMany(path, "", len(s.Endpoints), maxEndpoints)
	} else {
		for i := range s.Endpoints {
			validateEndpoint(&c, &s.Endpoints[i], s.AddressType, path.Index(i))
		}
	}
	validatePorts(&c, s.Ports, field.NewPath("ports"))
	return c.List
}

func validateEndpoint(c *check.Errors, e *discoveryv1.Endpoint, t discoveryv1.AddressType, path *field.Path) {
	switch n := len(e.Addresses); {
	case n == 0:
		c.Required(path, "addresses", "must contain at least 1 address")
	case n > maxAddresses:
		c.TooMany(path, "addresses", n, maxAddresses)
	}
	for i, a := range e.Addresses {
		validateAddress(c, a, t, path.Child("addresses").Index(i))
	}
	if e.NodeName != nil {
		c.Subdomain(path, "nodeName", *e.NodeName)
	}
	topology := path.Child("deprecatedTopology")
	if len(e.DeprecatedTopology) > maxTopology {
		c.TooMany(topology, "", len(e.DeprecatedTopology), maxTopology)
	}
	if len(e.DeprecatedTopology) > 0 {
		c.Add(metavalidation.ValidateLabels(e.DeprecatedTopology, topology))
		if _, ok := e.DeprecatedTopology[corev1.LabelHostname]; ok {
			c.Invalid(topology.Key(corev1.LabelHostname), "", corev1.LabelHostname, "may not be set unless it was previously set")
		}
	}
	if e.Hostname != nil {
		c.Label(path, "hostname", *e.Hostname)
	}
	if e.Hints != nil {
		validateHints(c, e.Hints, path.Child("hints"))
	}
}

func validateHints(c *check.Errors, h *discoveryv1.EndpointHints, path *field.Path) {
	if n := len(h.ForZones); n > maxZoneHints {
		c.TooMany(path, "forZones", n, maxZoneHints)
		return
	}
	var zones, nodes check.Unique[string]
	for i, zone := range h.ForZones {
		p := path.Child("forZones").Index(i)
		if zones.Seen(zone.Name) {
			c.Duplicate(p, "name", zone.Name)
		}
		c.Text(p, "name", zone.Name, validation.IsValidLabelValue(zone.Name))
	}
	if n := len(h.ForNodes); n > maxZoneHints {
		c.TooMany(path, "forNodes", n, maxZoneHints)
		return
	}
	for i, node := range h.ForNodes {
		p := path.Child("forNodes").Index(i)
		if nodes.Seen(node.Name) {
			c.Duplicate(p, "name", node.Name)
		}
		c.Subdomain(p, "name", node.Name)
	}
}

func validateAddress(c *check.Errors, address string, t discoveryv1.AddressType, path *field.Path) {
	switch t {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		if bad := validation.IsValidIPForLegacyField(path, address, true, nil); len(bad) > 0 {
			c.Add(bad)
		} else if v6 := netutils.IsIPv6String(address); v6 != (t == discoveryv1.AddressTypeIPv6) {
			c.Invalid(path, "", address, fmt.Sprintf("must be a valid %s address", t))
		}
		core.ValidateEndpointIP(c, address, path)
	case discoveryv1.AddressTypeFQDN:
		c.Add(validation.IsFullyQualifiedDomainName(path, address))
	}
}

func validatePorts(c *check.Errors, ports []discoveryv1.EndpointPort, path *field.Path) {
	if len(ports) > maxPorts {
		c.TooMany(path, "", len(ports), maxPorts)
		return
	}
	var names check.Unique[string]
	for i := range ports {
		port, p := &ports[i], path.Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			c.Label(p, "name", name)
		}
		if names.Seen(name) {
			c.Duplicate(p, "name", name)
		}
		if port.Protocol == nil {
			c.Required(p, "protocol", "")
		} else {
			check.OneOf(c, p, "protocol", *port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if port.Port != nil {
			c.Port(p, "port", *port.Port)
		}
		if port.AppProtocol != nil {
			c.Qualified(p, "appProtocol", *port.AppProtocol)
		}
	}
}

func validateEndpointSliceUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateEndpointSlice(s)
	// A label that was there may stay, for the objects of old clients.
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
		return strings.HasSuffix(e.Field, ".deprecatedTopology["+corev1.LabelHostname+"]") && hostnameLabelled(old)
	})
	if len(errs) > 0 && equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) { // they were valid once
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return strings.HasPrefix(e.Field, "endpoints[") })
	}
	c := check.Errors{List: errs}
	if s.AddressType != old.AddressType {
		c.Immutable(field.NewPath("addressType"), "", s.AddressType)
	}
	return c.List
}

func hostnameLabelled(s *discoveryv1.EndpointSlice) bool {
	for i := range s.Endpoints {
		if _, ok := s.Endpoints[i].DeprecatedTopology[corev1.LabelHostname]; ok {
			return true
		}
	}
	return false
}
