package scheduler

import "slices"

// Scores are in thousandths of upstream's 0 to 100, so that nodes that differ
// by one small pod do not tie.
const maxScore = 100_000

// resourceScore prefers nodes with much left, or as the profile says, and nodes
// whose CPU and memory are used in like proportion.
func resourceScore(p *podInfo, n *nodeInfo) int64 {
	cpu := used(n.scoreCPU+p.scoreCPU, n.allocatable.milliCPU)
	memory := used(n.scoreMemory+p.scoreMemory, n.allocatable.memory)
	var fit, even int64
	if p.profile.Resources == nil {
		fit = (p.profile.usage(cpu) + p.profile.usage(memory)) / 2
	} else {
		fit = p.profile.fit(p, n)
	}
	if p.profile.BalancedResources == nil {
		// With two resources the standard deviation is half the difference.
		even = maxScore - abs(cpu-memory)/2
	} else {
		even = p.profile.even(p, n)
	}
	return p.profile.fitWeight*fit + p.profile.evenWeight*even
}

// used returns how much of a capacity is used, of maxScore.
func used(requested, capacity int64) int64 {
	if capacity <= 0 || requested >= capacity {
		return maxScore
	}
	return int64(float64(requested) / float64(capacity) * maxScore)
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
func (c *cluster) addPreferences(p *podInfo, candidates []candidate, d *domains) {
	weights := p.profile.weights
	if d != nil && len(d.pull) > 0 {
		addScaled(candidates, weights[interPodAffinity], scoresOf(candidates, d.attraction))
	}
	if d != nil && len(d.softSpread) > 0 {
		scores := scoresOf(candidates, d.crowding)
		most := slices.Max(scores)
		for i, crowd := range scores {
			if scores[i] = -crowd; crowd < 0 {
				scores[i] = -most - 1 // a node that is in no domain comes last
			}
		}
		addScaled(candidates, weights[podTopologySpread], scores)
	}
	if p.preferred != nil || p.profile.addedPreferred != nil {
		addNormalized(candidates, weights[nodeAffinity], false, p.preference)
	}
	if c.soft > 0 {
		addNormalized(candidates, weights[taintToleration], true, func(n *nodeInfo) int64 {
			var count int64
			for i := range n.softTaints {
				if !tolerates(p, &n.softTaints[i]) {
					count++
				}
			}
			return count
		})
	}
	if len(c.images) > 0 {
		for i := range candidates {
			candidates[i].score += weights[imageLocality] * c.imageScore(p, candidates[i].node)
		}
	}
	for _, s := range p.profile.scorers {
		for i := range candidates {
			candidates[i].score += weights[s.Name()] * s.Score(p.pod, Node{candidates[i].node}) * (maxScore / 100)
		}
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

func scoresOf(candidates []candidate, score func(*nodeInfo) int64) []int64 {
	scores := make([]int64, len(candidates))
	for i := range candidates {
		scores[i] = score(candidates[i].node)
	}
	return scores
}

// addScaled gives the least of the scores nothing and the greatest all.
func addScaled(candidates []candidate, weight int64, scores []int64) {
	least, most := slices.Min(scores), slices.Max(scores)
	if least == most {
		return // no difference
	}
	for i := range candidates {
		candidates[i].score += int64(float64(weight*maxScore) * (float64(scores[i]-least) / float64(most-least)))
	}
}
