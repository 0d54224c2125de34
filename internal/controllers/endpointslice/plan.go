package endpointslice

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/setpoint-project/setpoint/internal/controllers/sliceset"
)

const (
	// ManagedBy is the value of the label that says which slices are ours.
	ManagedBy = "endpointslice-controller.k8s.io"
	// maxEndpoints is how many endpoints a slice holds.
	maxEndpoints = 100
)

// world is what the plan is made from.
type world struct {
	service *corev1.Service
	pods    []*corev1.Pod                // that the service selects
	slices  []*discoveryv1.EndpointSlice // of the service, ours
	zone    func(node string) string
	zones   func() (w weights, why string) // asked when the endpoints are to be spread over them
	taken   func(name string) bool         // there is a slice of that name in the namespace
}

// plan returns the next write that brings the slices closer to the pods. What
// is missing comes before what is too much, so that no endpoint is ever
// without a slice while it moves from one to another. hints says what has become
// of the spreading over zones, "" where none was asked for.
func plan(w world) (next sliceset.Step, hints string) {
	sortPods(w.pods)
	had := slices.Clone(w.slices)
	slices.SortFunc(had, func(a, b *discoveryv1.EndpointSlice) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	var want []*discoveryv1.EndpointSlice // as they should be; without a name: new
	for _, family := range families(w.service) {
		filled, said := fill(w, family, had)
		want = append(want, filled...)
		hints = cmp.Or(hints, said)
	}
	for _, s := range want {
		if s.Name == "" {
			name(w, s)
			return sliceset.Step{Create: s}, hints
		}
	}
	keep := map[string]bool{}
	for _, s := range want {
		keep[s.Name] = true
		old := had[slices.IndexFunc(had, func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name })]
		if !equality.Semantic.DeepEqual(old, s) {
			return sliceset.Step{Update: s}, hints
		}
	}
	for _, s := range had {
		if !keep[s.Name] && s.DeletionTimestamp == nil {
			return sliceset.Step{Remove: s}, hints
		}
	}
	return sliceset.Step{}, hints
}

// families are those of the service's addresses.
func families(service *corev1.Service) []corev1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies
	}
	if f := familyOf(service.Spec.ClusterIP); f != "" {
		return []corev1.IPFamily{f}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}

// group is what shares slices: endpoints with the same ports.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[types.UID]discoveryv1.Endpoint
	order     []types.UID
}

// fill returns the slices of one family as they should be: each endpoint stays
// in the slice it is in, and new ones go where there is room. Groups of
// endpoints that are empty need no slice, but one in all is there even so: it
// says that the service was looked at. hints is as of plan.
func fill(w world, family corev1.IPFamily, had []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice, hints string) {
	groups := groupsOf(w, family)
	if auto(w.service) {
		hints = w.spread(groups)
	}
	for _, g := range groups {
		var mine []*discoveryv1.EndpointSlice
		for _, s := range had {
			if s.AddressType == discoveryv1.AddressType(family) && s.DeletionTimestamp == nil && samePorts(s.Ports, g.ports) {
				mine = append(mine, s)
			}
		}
		out = append(out, g.fill(w.service, mine)...)
	}
	if len(out) > 0 {
		spare := slices.DeleteFunc(slices.Clone(had), func(s *discoveryv1.EndpointSlice) bool {
			return s.AddressType != discoveryv1.AddressType(family) || s.DeletionTimestamp != nil ||
				slices.ContainsFunc(out, func(o *discoveryv1.EndpointSlice) bool { return o.Name == s.Name })
		})
		for i, s := range out {
			if s.Name != "" {
				continue
			}
			// One write instead of two, where no endpoint gets lost by it.
			k := slices.IndexFunc(spare, func(o *discoveryv1.EndpointSlice) bool { return replaces(o, s, groups) })
			if k < 0 {
				out[i] = newSlice(w.service, family, s.Ports, s.Endpoints)
				continue
			}
			out[i] = spare[k].DeepCopy()
			out[i].Ports, out[i].Endpoints = s.Ports, s.Endpoints
			describe(out[i], w.service)
			spare = slices.Delete(spare, k, k+1)
		}
		return out, hints
	}
	for _, s := range had {
		if s.AddressType == discoveryv1.AddressType(family) && s.DeletionTimestamp == nil {
			next := s.DeepCopy()
			next.Endpoints, next.Ports = nil, nil
			describe(next, w.service)
			return []*discoveryv1.EndpointSlice{next}, hints
		}
	}
	return []*discoveryv1.EndpointSlice{newSlice(w.service, family, nil, nil)}, hints
}

// replaces tells that a new slice has every endpoint of an old one that is
// still wanted.
func replaces(old, new *discoveryv1.EndpointSlice, groups []*group) bool {
	has := map[types.UID]bool{}
	for _, ep := range new.Endpoints {
		has[ep.TargetRef.UID] = true
	}
	for _, ep := range old.Endpoints {
		if ep.TargetRef == nil || has[ep.TargetRef.UID] {
			continue
		}
		for _, g := range groups {
			if _, ok := g.endpoints[ep.TargetRef.UID]; ok {
				return false
			}
		}
	}
	return true
}

func groupsOf(w world, family corev1.IPFamily) []*group {
	var groups []*group
	for _, pod := range w.pods {
		address := Address(pod, family)
		if !Backend(pod) || address == "" {
			continue
		}
		ports := portsOf(w.service, pod)
		i := slices.IndexFunc(groups, func(g *group) bool { return samePorts(g.ports, ports) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{ports: ports, endpoints: map[types.UID]discoveryv1.Endpoint{}})
		}
		groups[i].endpoints[pod.UID] = endpointOf(w.service, pod, address, w.zone(pod.Spec.NodeName))
		groups[i].order = append(groups[i].order, pod.UID)
	}
	return groups
}

// fill puts the group's endpoints into slices; mine are those that have its
// ports already.
func (g *group) fill(service *corev1.Service, mine []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	placed := map[types.UID]bool{}
	for _, s := range mine {
		next := s.DeepCopy()
		next.Endpoints, next.Ports = nil, g.ports
		for _, ep := range s.Endpoints {
			if ep.TargetRef == nil || placed[ep.TargetRef.UID] || len(next.Endpoints) == maxEndpoints {
				continue
			}
			if want, ok := g.endpoints[ep.TargetRef.UID]; ok {
				placed[ep.TargetRef.UID] = true
				next.Endpoints = append(next.Endpoints, want)
			}
		}
		describe(next, service)
		out = append(out, next)
	}
	var rest []discoveryv1.Endpoint
	for _, uid := range g.order {
		if !placed[uid] {
			rest = append(rest, g.endpoints[uid])
		}
	}
	for _, s := range out {
		n := min(len(rest), maxEndpoints-len(s.Endpoints))
		s.Endpoints, rest = append(s.Endpoints, rest[:n]...), rest[n:]
	}
	out = slices.DeleteFunc(out, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) == 0 })
	for len(rest) > 0 {
		n := min(len(rest), maxEndpoints)
		out = append(out, &discoveryv1.EndpointSlice{Ports: g.ports, Endpoints: rest[:n]})
		rest = rest[n:]
	}
	return out
}

func samePorts(a, b []discoveryv1.EndpointPort) bool {
	return equality.Semantic.DeepEqual(a, b) || len(a) == 0 && len(b) == 0
}

func newSlice(service *corev1.Service, family corev1.IPFamily, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressType(family), Ports: ports, Endpoints: endpoints}
	s.Namespace = service.Namespace
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))}
	describe(s, service)
	return s
}

// describe gives a slice the service's labels and annotations and our own.
func describe(s *discoveryv1.EndpointSlice, service *corev1.Service) {
	s.Labels = make(map[string]string, len(service.Labels)+3)
	maps.Copy(s.Labels, service.Labels)
	delete(s.Labels, corev1.IsHeadlessService)
	s.Labels[discoveryv1.LabelServiceName] = service.Name
	s.Labels[discoveryv1.LabelManagedBy] = ManagedBy
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		s.Labels[corev1.IsHeadlessService] = ""
	}
	s.Annotations = nil
	for k, v := range service.Annotations {
		if k == corev1.LastAppliedConfigAnnotation || k == corev1.EndpointsLastChangeTriggerTime {
			continue
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[k] = v
	}
}

// name gives a new slice a name that two copies of the loop, or one that
// crashed after the write, come to alike: the second is told that it exists.
func name(w world, s *discoveryv1.EndpointSlice) {
	for i := 0; ; i++ {
		h := fnv.New32a()
		fmt.Fprint(h, w.service.UID, s.AddressType, i)
		base := w.service.Name
		s.Name = fmt.Sprintf("%s-%s", base[:min(len(base), 253-11)], rand.SafeEncodeString(fmt.Sprint(h.Sum32())))
		if !w.taken(s.Name) {
			return
		}
	}
}
