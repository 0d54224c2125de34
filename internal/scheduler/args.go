package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Args are what single plugins of a profile are told, named as in upstream's
// configuration. The zero value is upstream's defaults.
//
// https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
type Args struct {
	// AddedAffinity is heeded besides that of each pod.
	AddedAffinity *corev1.NodeAffinity
	// HardPodAffinityWeight, 0 to 100, is what the required affinity of a pod
	// that is placed counts for the scores of those that it wants near; nil
	// means 1.
	HardPodAffinityWeight *int32
	// IgnorePreferredTermsOfExistingPods leaves out what placed pods want near or
	// far where the new one has no preferences about others.
	IgnorePreferredTermsOfExistingPods bool
	// IgnoredResources, and the extended resources of IgnoredResourceGroups
	// ("example.com"), are not looked at where nodes are filtered.
	IgnoredResources, IgnoredResourceGroups []string
	// Resources that nodes are scored by, each with its weight, 1 to 100; nil
	// means CPU and memory, alike. BalancedResources are those that are to be
	// used in like proportion; nil means CPU and memory.
	Resources         []ResourceWeight
	BalancedResources []corev1.ResourceName
	// MinCandidateNodesPercentage of the nodes, 0 to 100, and no fewer than
	// MinCandidateNodesAbsolute are enough of those where room can be made to
	// choose from; nil means 10 and 100. Not both are 0.
	MinCandidateNodesPercentage, MinCandidateNodesAbsolute *int32
}

// ResourceWeight says how much a resource counts.
type ResourceWeight struct {
	Name   corev1.ResourceName
	Weight int64
}

// args are Args, worked out.
type args struct {
	added          *nodeaffinity.NodeSelector             // nil: any node
	addedPreferred *nodeaffinity.PreferredSchedulingTerms // nil: none
	hardWeight     int64

	percentage, absolute int // of nodes to make room on
}

func newArgs(from *Args) (a args, err error) {
	if a.hardWeight = 1; from.HardPodAffinityWeight != nil {
		if a.hardWeight = int64(*from.HardPodAffinityWeight); a.hardWeight < 0 || a.hardWeight > 100 {
			return a, fmt.Errorf("hardPodAffinityWeight: %d is not between 0 and 100", a.hardWeight)
		}
	}
	a.percentage, a.absolute = 10, leastSample
	if n := from.MinCandidateNodesPercentage; n != nil {
		a.percentage = int(*n)
	}
	if n := from.MinCandidateNodesAbsolute; n != nil {
		a.absolute = int(*n)
	}
	switch {
	case a.percentage < 0 || a.percentage > 100:
		return a, fmt.Errorf("minCandidateNodesPercentage: %d is not between 0 and 100", a.percentage)
	case a.absolute < 0:
		return a, fmt.Errorf("minCandidateNodesAbsolute: %d is less than 0", a.absolute)
	case a.percentage == 0 && a.absolute == 0:
		return a, fmt.Errorf("minCandidateNodesPercentage: it must not be 0 when minCandidateNodesAbsolute is")
	}
	for _, r := range from.Resources {
		if r.Weight < 1 || r.Weight > 100 {
			return a, fmt.Errorf("resources: the weight of %s, %d, is not between 1 and 100", r.Name, r.Weight)
		}
	}
	for _, name := range from.IgnoredResources {
		if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
			return a, fmt.Errorf("ignoredResources: %q is no name of a resource: %s", name, wrong[0])
		}
	}
	for _, group := range from.IgnoredResourceGroups {
		if strings.Contains(group, "/") {
			return a, fmt.Errorf("ignoredResourceGroups: %s is no group: it has a slash", group)
		}
		if wrong := validation.IsQualifiedName(group); len(wrong) > 0 {
			return a, fmt.Errorf("ignoredResourceGroups: %q is no group: %s", group, wrong[0])
		}
	}
	if added := from.AddedAffinity; added != nil {
		if required := added.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			if a.added, err = nodeaffinity.NewNodeSelector(required); err != nil {
				return a, fmt.Errorf("addedAffinity: %w", err)
			}
		}
		if preferred := added.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
			if a.addedPreferred, err = nodeaffinity.NewPreferredSchedulingTerms(preferred); err != nil {
				return a, fmt.Errorf("addedAffinity: %w", err)
			}
		}
	}
	return a, nil
}

// enforced is whether a node is one of those that the profile places on.
func enforced(p *podInfo, n *nodeInfo) bool {
	return p.profile.added == nil || p.profile.without&withoutAffinity != 0 || p.profile.added.Match(n.node)
}

// preference is what the preferred node affinities make of a node.
func (p *podInfo) preference(n *nodeInfo) (sum int64) {
	if p.preferred != nil {
		sum = p.preferred.Score(n.node)
	}
	if p.profile.addedPreferred != nil {
		sum += p.profile.addedPreferred.Score(n.node)
	}
	return sum
}

// ignores tells whether nodes are not filtered by an extended resource.
func (a *Args) ignores(name corev1.ResourceName) bool {
	if len(a.IgnoredResources) == 0 && len(a.IgnoredResourceGroups) == 0 {
		return false
	}
	group, _, extended := strings.Cut(string(name), "/")
	return extended && (slices.Contains(a.IgnoredResources, string(name)) || slices.Contains(a.IgnoredResourceGroups, group))
}

// share is how much of a resource is used with p on the node, of maxScore;
// false: the node has none, or it is a scarce one that p does not ask for.
func share(p *podInfo, n *nodeInfo, name corev1.ResourceName) (int64, bool) {
	var wanted int64
	switch name {
	case corev1.ResourceCPU:
		wanted = n.scoreCPU + p.scoreCPU
	case corev1.ResourceMemory:
		wanted = n.scoreMemory + p.scoreMemory
	default:
		own := p.requests.of(name)
		if own == 0 && name != corev1.ResourceEphemeralStorage {
			return 0, false
		}
		wanted = n.requested.of(name) + own
	}
	capacity := n.allocatable.of(name)
	return used(wanted, capacity), capacity > 0
}

// fit scores a node by Resources, by their weights. As upstream, a resource by
// which a shape gives nothing does not count.
func (p *profile) fit(pod *podInfo, n *nodeInfo) int64 {
	var sum, weights int64
	for _, r := range p.Resources {
		of, ok := share(pod, n, r.Name)
		if !ok {
			continue
		}
		if score := p.usage(of); score > 0 || len(p.Shape) == 0 {
			sum += r.Weight * score
			weights += r.Weight
		}
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// even scores a node by how alike BalancedResources are used: by the standard
// deviation.
func (p *profile) even(pod *podInfo, n *nodeInfo) int64 {
	var sum, squares, count float64
	for _, name := range p.BalancedResources {
		if of, ok := share(pod, n, name); ok {
			sum, squares, count = sum+float64(of), squares+float64(of)*float64(of), count+1
		}
	}
	if count == 0 {
		return maxScore
	}
	mean := sum / count
	return maxScore - int64(math.Sqrt(max(squares/count-mean*mean, 0)))
}
