package proxy

// changes is what lies between two programs.
type changes struct {
	dropFrontends, addFrontends []Frontend
	dropChains, setChains       []string
	dropGates, setGates         []string
}

// diff finds what to change. A frontend that moves to another chain is dropped
// and added within the same transaction.
func diff(had, want Program) changes {
	var d changes
	for f, chain := range had.Frontends {
		if want.Frontends[f] != chain {
			d.dropFrontends = append(d.dropFrontends, f)
		}
	}
	for f, chain := range want.Frontends {
		if had.Frontends[f] != chain {
			d.addFrontends = append(d.addFrontends, f)
		}
	}
	for name := range had.Chains {
		if _, ok := want.Chains[name]; !ok {
			d.dropChains = append(d.dropChains, name)
		}
	}
	for name, c := range want.Chains {
		if old, ok := had.Chains[name]; !ok || !old.equal(c) {
			d.setChains = append(d.setChains, name)
		}
	}
	for name := range had.Gates {
		if _, ok := want.Gates[name]; !ok {
			d.dropGates = append(d.dropGates, name)
		}
	}
	for name, g := range want.Gates {
		if old, ok := had.Gates[name]; !ok || !old.equal(g) {
			d.setGates = append(d.setGates, name)
		}
	}
	return d
}
