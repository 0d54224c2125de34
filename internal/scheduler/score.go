package scheduler

import "math"

// Scores are in thousandths of upstream's 0 to 100, so that nodes that differ
// by one small pod do not tie.
const maxScore = 100_000

// Weights of the scores, as upstream's.
const (
	weightLeastAllocated = 1
	weightBalanced       = 1
	weightNodeAffinity   = 2
	weightTaints         = 3
	weightPodAffinity    = 2
	weightSpread         = 2
)

// resourceScore prefers nodes with much left, and nodes whose CPU and memory
// are used in like proportion.
func resourceScore(p *podInfo, n *nodeInfo) int64 {
	cpu, cpuFree := used(n.scoreCPU+p.scoreCPU, n.allocatable.milliCPU)
	memory, memoryFree := used(n.scoreMemory+p.scoreMemory, n.allocatable.memory)
	least := (cpuFree + memoryFree) / 2
	// With two resources the standard deviation is half the difference.
	balanced := maxScore - abs(cpu-memory)/2
	return weightLeastAllocated*least + weightBalanced*balanced
}

// used returns how much of a capacity is used and free, of maxScore.
func used(requested, capacity int64) (share, free int64) {
	if capacity <= 0 || requested >= capacity {
		return maxScore, 0
	}
	share = int64(float64(requested) / float64(capacity) * maxScore)
	return share, maxScore - share
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// addPreferences adds to the scores of candidates what must be seen over all
// of them: preferred node affinity, of the best; soft taints that are not
// tolerated, of the worst; preferences about other pods, between the two.
func addPreferences(p *podInfo, candidates []candidate, softTaints bool, d *domains) {
	if d != nil && len(d.pull) > 0 {
		addScaled(candidates, weightPodAffinity, d.attraction)
	}
	if d != nil && len(d.softSpread) > 0 {
		var most int64
		for i := range candidates {
			most = max(most, d.crowding(candidates[i].node))
		}
		addScaled(candidates, weightSpread, func(n *nodeInfo) int64 {
			if c := d.crowding(n); c >= 0 {
				return -c
			}
			return -most - 1 // a node that is in no domain comes last
		})
	}
	if p.preferred != nil {
		addNormalized(candidates, weightNodeAffinity, false, func(n *nodeInfo) int64 { return p.preferred.Score(n.node) })
	}
	if softTaints {
		addNormalized(candidates, weightTaints, true, func(n *nodeInfo) int64 {
			var count int64
			for i := range n.softTaints {
				if !tolerates(p, &n.softTaints[i]) {
					count++
				}
			}
			return count
		})
	}
}

func addNormalized(candidates []candidate, weight int64, reverse bool, score func(*nodeInfo) int64) {
	scores := make([]int64, len(candidates))
	var most int64
	for i := range candidates {
		scores[i] = score(candidates[i].node)
		most = max(most, scores[i])
	}
	if most == 0 {
		return // no difference
	}
	for i := range candidates {
		s := maxScore * scores[i] / most
		if reverse {
			s = maxScore - s
		}
		candidates[i].score += weight * s
	}
}

// addScaled gives the least of the scores nothing and the greatest all.
func addScaled(candidates []candidate, weight int64, score func(*nodeInfo) int64) {
	scores := make([]int64, len(candidates))
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range candidates {
		scores[i] = score(candidates[i].node)
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	if least == most {
		return // no difference
	}
	for i := range candidates {
		candidates[i].score += int64(float64(weight*maxScore) * (float64(scores[i]-least) / float64(most-least)))
	}
}
