package cli

import "testing"

func TestResting(t *testing.T) {
	const mib = 1 << 20
	type step struct {
		cycles, allocated uint64 // MiB
		collect           bool
	}
	for name, steps := range map[string][]step{
		"at work":                     {{1, 100, false}, {2, 300, false}, {3, 500, false}},
		"quiet after work":            {{1, 100, false}, {1, 101, true}, {2, 102, false}, {2, 103, false}},
		"quiet from the beginning":    {{1, 3, false}, {1, 6, false}, {1, 9, false}},
		"quiet for long":              {{1, 3, false}, {1, 6, false}, {1, 9, false}, {1, 12, false}, {1, 15, false}, {1, 18, false}, {1, 21, false}, {1, 24, false}, {1, 27, false}, {1, 30, false}, {1, 33, true}, {2, 36, false}},
		"collected when quiet":        {{1, 100, false}, {2, 101, false}, {2, 102, false}},
		"collected while it worked":   {{1, 100, false}, {2, 200, false}, {2, 201, true}},
		"little work after much":      {{1, 100, false}, {1, 110, false}, {1, 111, true}},
		"work, which itself collects": {{5, 1000, false}, {9, 2000, false}, {9, 2003, true}, {10, 2006, false}},
	} {
		var r resting
		for i, s := range steps {
			if got := r.look(s.cycles, s.allocated*mib); got != s.collect {
				t.Errorf("%s: look %d: got %v, want %v", name, i, got, s.collect)
			}
		}
	}
}
