package nodeipam

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plan gives ranges to the nodes that have none, those that they are promised
// or else free ones, and returns those that need one and for which there is none
// left.
func plan(nodes []*corev1.Node, promised promises, config Config) (given, left []*corev1.Node) {
	var missing []*corev1.Node
	for _, node := range nodes {
		if lacks(node) {
			missing = append(missing, node)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	all := make([]*ranges, len(config.Cluster))
	for i := range all {
		all[i], _ = newRanges(config.Cluster[i]) // New has checked it
		for _, p := range config.Kept {
			all[i].take(p)
		}
		for _, node := range nodes {
			all[i].takeAll(append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...))
		}
	}
	slices.SortFunc(missing, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	kept := map[types.UID]bool{}
	for _, node := range missing {
		if mine := promised[node.UID]; canKeep(mine, all) {
			for _, r := range all {
				r.takeAll(mine)
			}
			kept[node.UID] = true
			given = append(given, withRanges(node, mine))
		}
	}
	for _, node := range missing {
		if kept[node.UID] {
			continue
		}
		if len(given) >= mostPromises {
			break
		}
		simulated := config.Simulated(node)
		cidrs := make([]string, len(all))
		short := false
		for k, r := range all {
			p, ok := r.free()
			short = short || !ok || simulated && !r.spare()
			cidrs[k] = p.String()
		}
		switch {
		case short && !simulated:
			left = append(left, node)
		case !short:
			for _, r := range all {
				r.takeAll(cidrs)
			}
			given = append(given, withRanges(node, cidrs))
		}
	}
	return given, left
}

// canKeep tells whether a promise can be kept: it is what a copy of this loop may
// have written, free ranges for a node, of one family each. Anybody
// may have written the record, and the cluster's ranges may have been others.
func canKeep(cidrs []string, all []*ranges) bool {
	of := map[*ranges]bool{}
	for _, s := range cidrs {
		p, err := netip.ParsePrefix(s)
		i := slices.IndexFunc(all, func(r *ranges) bool { return err == nil && r.offers(p) })
		if i < 0 || of[all[i]] {
			return false
		}
		of[all[i]] = true
	}
	return len(cidrs) > 0
}

func lacks(node *corev1.Node) bool {
	return node.Spec.PodCIDR == "" && node.DeletionTimestamp == nil
}

func withRanges(node *corev1.Node, cidrs []string) *corev1.Node {
	next := node.DeepCopy()
	next.Spec.PodCIDR, next.Spec.PodCIDRs = cidrs[0], cidrs
	return next
}

// takeAll marks those of the ranges that are parts of this one as taken.
func (r *ranges) takeAll(cidrs []string) {
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err == nil {
			r.take(p)
		}
	}
}
