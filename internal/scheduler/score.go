package scheduler

// Scores are in thousandths of upstream's 0 to 100, so that nodes that differ
// by one small pod do not tie.
const maxScore = 100_000

// Weights of the scores, as upstream's.
const (
	weightLeastAllocated = 1
	weightBalanced       = 1
	weightNodeAffinity   = 2
	weightTaints         = 3
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
// of them: preferred node affinity, of the best; and soft taints that are not
// tolerated, of the worst.
func addPreferences(p *podInfo, candidates []candidate, softTaints bool) {
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
