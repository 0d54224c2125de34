package scheduler

import (
	"fmt"
	"sort"
	"strings"
)

// Diagnosis says why a pod is on no node, node by node.
type Diagnosis struct {
	// All is why the pod can be on no node, whichever; then no node was looked
	// at.
	All string
	// Refused has, for each node that refuses the pod, why.
	Refused map[string][]string
	// Fits are the nodes that would take it.
	Fits []string
	// Helps says in words what could make it fit.
	Helps []string
}

// diagnose says why each node refuses a pod, for the present state.
func (pl *placement) diagnose(p *podInfo) *Diagnosis {
	d := &Diagnosis{Refused: make(map[string][]string, len(pl.cluster.list)), All: p.refusal()}
	if d.All != "" {
		for _, n := range pl.cluster.list {
			d.Refused[n.name] = []string{d.All}
		}
		d.Helps = p.waitsOn()
		return d
	}
	for _, n := range pl.cluster.list {
		if reasons := pl.refusals(p, n); len(reasons) > 0 {
			d.Refused[n.name] = reasons
		} else {
			d.Fits = append(d.Fits, n.name)
		}
	}
	d.Helps = pl.helps(p)
	return d
}

func (pl *placement) refusals(p *podInfo, n *nodeInfo) []string {
	if reasons := explain(p, n); len(reasons) > 0 {
		return reasons
	}
	if reason := pl.domains.refuses(n); reason != "" {
		return []string{reason}
	}
	if reason := pl.vetoed[n.name]; reason != "" {
		return []string{reason}
	}
	if room := pl.cluster.nominated.with(p, n); room != n {
		if reasons := explain(p, room); len(reasons) > 0 {
			return reasons
		}
	}
	if reason := p.devices.Refuses(n.node); reason != "" {
		return []string{reason}
	}
	return nil
}

// String counts the nodes for each reason, as `kubectl describe` shows it.
func (d *Diagnosis) String() string {
	nodes := len(d.Refused) + len(d.Fits)
	if nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if d.All != "" {
		return fmt.Sprintf("0/%d nodes are available: %s.", nodes, d.All)
	}
	counts := map[string]int{}
	for _, reasons := range d.Refused {
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	return countReasons(nodes, counts)
}

func countReasons(nodes int, counts map[string]int) string {
	parts := make([]string, 0, len(counts))
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	sort.Strings(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(parts, ", "))
}

// helps says which changes make the pod be tried again; see hints.go.
func (pl *placement) helps(p *podInfo) []string {
	helps := []string{"a node that has room, or gets it, and that the pod may use"}
	if p.terms != nil {
		for i := range p.terms.affinity {
			helps = append(helps, "a pod that matches "+p.terms.affinity[i].selector.String()+" placed in a domain of "+p.terms.affinity[i].topologyKey)
		}
		for i := range p.terms.antiAffinity {
			helps = append(helps, "a pod that matches "+p.terms.antiAffinity[i].selector.String()+" gone from a domain of "+p.terms.antiAffinity[i].topologyKey)
		}
		for i := range p.terms.spread {
			helps = append(helps, "pods that match "+p.terms.spread[i].selector.String()+" placed or gone so that domains of "+p.terms.spread[i].topologyKey+" are even")
		}
	}
	if pl.domains != nil && len(pl.domains.existing) > 0 {
		helps = append(helps, "a pod gone whose anti-affinity keeps this one away")
	}
	return append(helps, p.waitsOn()...)
}
