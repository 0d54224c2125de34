package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Nodes that fall silent one by one have died; many at once have more likely
// lost the way to us, and moving all their pods would do harm. So the rate at
// which nodes are given up depends on how many of their zone are well:
// https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction
const (
	interval          = 10 * time.Second  // between two nodes of a zone
	disruptedInterval = 100 * time.Second // ... of which most are not ready
	disruptedShare    = 0.55
	largeZone         = 50 // nodes; a smaller one that is disrupted gives up none
)

// zone counts nodes.
type zone struct{ nodes, notReady int }

func (z zone) full() bool { return z.notReady == z.nodes }

// every is the interval between two nodes that are given up; 0 means never.
func (z zone) every() time.Duration {
	switch {
	case z.full() || z.notReady <= 2 || float64(z.notReady)/float64(z.nodes) < disruptedShare:
		return interval
	case z.nodes > largeZone:
		return disruptedInterval
	}
	return 0
}

func zoneOf(node *corev1.Node) string {
	return node.Labels[corev1.LabelTopologyRegion] + "/" + node.Labels[corev1.LabelTopologyZone]
}

// countZones counts the nodes of each zone, and says whether no node at all is
// ready: then nothing is evicted, for there is nowhere to go, and it is likely
// we who are cut off.
func countZones(nodes []*corev1.Node) (zones map[string]zone, allDown bool) {
	zones, allDown = map[string]zone{}, true
	for _, node := range nodes {
		name := zoneOf(node)
		z := zones[name]
		z.nodes++
		if r := ready(node); r == corev1.ConditionTrue {
			allDown = false
		} else {
			z.notReady++
		}
		zones[name] = z
	}
	return zones, allDown
}

// turn says whether a node of a zone may be given up now, and if later, when
// to ask again; 0 means when something has changed. last is when the zone last
// gave up a node.
func turn(z zone, allDown bool, last, now time.Time) (evicts, time.Duration) {
	if allDown {
		return evictNever, 0
	}
	every := z.every()
	switch {
	case every == 0:
		return evictLater, 0
	case last.IsZero() || now.Sub(last) >= every:
		return evictNow, 0
	}
	return evictLater, every - now.Sub(last)
}
