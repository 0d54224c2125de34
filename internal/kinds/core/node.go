package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func node() *kinds.Kind {
	split := strategy.Of[corev1.Node]()
	status := split.Status()
	status.ValidateUpdate = strategy.ValidateUpdate(validateNodeUpdate)
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "nodes"}, Kind: "Node", Singular: "node",
		ShortNames:               []string{"no"},
		StoragePrefix:            "/registry/minions/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Node, corev1.NodeList](v1, defaultNode)},
		AllowUnconditionalUpdate: true,
		// A new node keeps its status: a kubelet registers with it in one step.
		PrepareUpdate:  split.PrepareUpdate,
		Validate:       strategy.Validate(validateNode),
		ValidateUpdate: strategy.ValidateUpdate(validateNodeUpdate),
		Subresources: map[string]*kinds.Subresource{
			"proxy":  {GroupVersionKind: v1.WithKind("NodeProxyOptions"), Verbs: []string{"create", "delete", "get", "patch", "update"}},
			"status": status,
		},
		SelectableFields: strategy.Fields(func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": text(n.Spec.Unschedulable)}
		}),
		FieldNames: []string{"spec.unschedulable"},
		Columns:    nodeColumns(),
	}
}

func nodeColumns() []kinds.Column {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	status := corev1.NodeStatus{}.SwaggerDoc()
	unknown := func(s string) any {
		if s == "" {
			return "<unknown>"
		}
		return s
	}
	return []kinds.Column{
		strategy.Name(),
		strategy.Column("Status", "string", "The status of the node", func(n *corev1.Node) any { return nodeStatus(n) }),
		strategy.Column("Roles", "string", "The roles of the node", func(n *corev1.Node) any { return nodeRoles(n) }),
		strategy.Age(),
		strategy.Column("Version", "string", info["kubeletVersion"], func(n *corev1.Node) any { return n.Status.NodeInfo.KubeletVersion }),
		strategy.Wide("Internal-IP", "string", status["addresses"], func(n *corev1.Node) any { return nodeAddress(n, corev1.NodeInternalIP) }),
		strategy.Wide("External-IP", "string", status["addresses"], func(n *corev1.Node) any { return nodeAddress(n, corev1.NodeExternalIP) }),
		strategy.Wide("OS-Image", "string", info["osImage"], func(n *corev1.Node) any { return unknown(n.Status.NodeInfo.OSImage) }),
		strategy.Wide("Kernel-Version", "string", info["kernelVersion"], func(n *corev1.Node) any { return unknown(n.Status.NodeInfo.KernelVersion) }),
		strategy.Wide("Container-Runtime", "string", info["containerRuntimeVersion"], func(n *corev1.Node) any { return unknown(n.Status.NodeInfo.ContainerRuntimeVersion) }),
	}
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(n *corev1.Node) string {
	var roles []string
	for key, value := range n.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	if len(roles) == 0 {
		return "<none>"
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func nodeAddress(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return "<none>"
}

// defaultNode also keeps podCIDR and podCIDRs in step; where both are set and
// differ, the older field counts.
func defaultNode(n *corev1.Node) {
	spec := &n.Spec
	if spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR) {
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
	if len(spec.PodCIDRs) > 0 {
		spec.PodCIDR = spec.PodCIDRs[0]
	}
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	roundUp(n.Status.Capacity)
	roundUp(n.Status.Allocatable)
}

// checkNode is what holds for a node at any time. The path of taints is
// upstream's, below metadata.
func checkNode(c *check.Errors, n *corev1.Node) {
	if len(n.Spec.Taints) > 0 {
		validateTaints(c, n.Spec.Taints, field.NewPath("metadata", "taints"))
	}
	for _, list := range [...]struct {
		name      string
		resources corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for name, q := range list.resources {
			if q.Sign() < 0 || q.MilliValue()%1000 != 0 {
				validateQuantity(c, name, q, field.NewPath("status", list.name, string(name)))
			}
		}
	}
}

func validateNode(n *corev1.Node) field.ErrorList {
	var c check.Errors
	checkNode(&c, n)
	path := field.NewPath("spec", "podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		c.Add(validation.IsValidCIDRForLegacyField(path.Index(i), cidr, true, nil))
	}
	if len(n.Spec.PodCIDRs) > 1 {
		if dual, err := netutils.IsDualStackCIDRStrings(n.Spec.PodCIDRs); err != nil || !dual || len(n.Spec.PodCIDRs) > 2 {
			c.Invalid(path, "", n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family")
		}
		var seen check.Unique[string]
		for i, cidr := range n.Spec.PodCIDRs {
			if seen.Seen(cidr) {
				c.Duplicate(path.Index(i), "", cidr)
			}
		}
	}
	return c.List
}

func validateTaints(c *check.Errors, taints []corev1.Taint, path *field.Path) {
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	var seen check.Unique[pair]
	for i, t := range taints {
		p := path.Index(i)
		c.Qualified(p, "key", t.Key)
		if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
			c.Invalid(p, "value", t.Value, strings.Join(bad, ";"))
		}
		if t.Effect == "" {
			c.Required(p, "effect", "")
		} else {
			validateEffect(c, p, t.Effect)
		}
		if seen.Seen(pair{t.Key, t.Effect}) {
			err := field.Duplicate(p, t)
			err.Detail = "taints must be unique by key and effect pair"
			c.List = append(c.List, err)
		}
	}
}

func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	var c check.Errors
	checkNode(&c, n)
	var seen check.Unique[corev1.NodeAddress]
	for i, a := range n.Status.Addresses {
		if seen.Seen(a) {
			c.Duplicate(field.NewPath("status", "addresses").Index(i), "", a)
		}
	}
	spec := field.NewPath("spec")
	once := func(name, title string) {
		c.Forbidden(spec, name, fmt.Sprintf("node updates may not change %s except from \"\" to valid", title))
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		once("podCIDRs", "podCIDR")
	}
	if old.Spec.ProviderID != "" && n.Spec.ProviderID != old.Spec.ProviderID {
		once("providerID", "providerID")
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		c.Forbidden(spec, "externalID", "may not be updated")
	}
	return c.List
}
