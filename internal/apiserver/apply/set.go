package apply

import (
	"slices"
	"strings"
)

// set is a set of fields, as a trie. A key is written as FieldsV1 writes it:
// "f:name" for a field, `k:{"name":"x"}` for the item of a list with keys,
// `v:"x"` for one of a set. Sets are never changed once they are made: parts of
// them are shared.
type set struct {
	key  string
	self bool  // the field itself is in the set, not just some below it
	kids []set // sorted by key
}

func (s *set) empty() bool { return !s.self && len(s.kids) == 0 }

// minus is a without what is in b, and whether that is less than a.
func minus(a, b []set) (out []set, less bool) {
	if len(a) == 0 || len(b) == 0 {
		return a, false
	}
	for i, j := 0, 0; i < len(a); i++ {
		for j < len(b) && b[j].key < a[i].key {
			j++
		}
		if j < len(b) && b[j].key == a[i].key {
			kids, fewer := minus(a[i].kids, b[j].kids)
			if fewer || a[i].self && b[j].self {
				if !less {
					less, out = true, append(make([]set, 0, len(a)), a[:i]...)
				}
				left := set{key: a[i].key, self: a[i].self && !b[j].self, kids: kids}
				if !left.empty() {
					out = append(out, left)
				}
				continue
			}
		}
		if less {
			out = append(out, a[i])
		}
	}
	if !less {
		return a, false
	}
	return out, true
}

// union is all of a and b.
func union(a, b []set) []set {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make([]set, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].key, b[0].key); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, set{key: a[0].key, self: a[0].self || b[0].self, kids: union(a[0].kids, b[0].kids)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// contains tells whether all of b is in a.
func contains(a, b []set) bool {
	i := 0
	for j := range b {
		for i < len(a) && a[i].key < b[j].key {
			i++
		}
		if i == len(a) || a[i].key != b[j].key || b[j].self && !a[i].self || !contains(a[i].kids, b[j].kids) {
			return false
		}
	}
	return true
}

// without leaves out what lies at any of the paths, and below. "*" in a path
// is any key.
func without(s []set, paths [][]string) []set {
	return prune(s, paths, false)
}

// within keeps only what lies at one of the paths, or below.
func within(s []set, paths [][]string) []set {
	return prune(s, paths, true)
}

func prune(s []set, paths [][]string, keep bool) []set {
	if len(s) == 0 || len(paths) == 0 {
		return s
	}
	var out []set
	for i := range s {
		var below [][]string
		hit := false
		for _, p := range paths {
			if p[0] != "*" && p[0] != s[i].key {
				continue
			}
			if len(p) == 1 {
				hit = true
				break
			}
			below = append(below, p[1:])
		}
		switch {
		case hit && keep, !hit && !keep && below == nil:
			out = append(out, s[i])
		case hit || below == nil:
		default:
			n := set{key: s[i].key, self: s[i].self, kids: prune(s[i].kids, below, keep)}
			if !n.empty() {
				out = append(out, n)
			}
		}
	}
	return out
}

// sorted brings the kids into order, and merges doubles.
func sorted(s []set) []set {
	inOrder := true
	for i := 1; inOrder && i < len(s); i++ {
		inOrder = s[i-1].key < s[i].key
	}
	if inOrder {
		return s
	}
	slices.SortStableFunc(s, func(a, b set) int { return strings.Compare(a.key, b.key) })
	out := s[:1]
	for _, n := range s[1:] {
		last := &out[len(out)-1]
		if last.key == n.key {
			*last = set{key: n.key, self: last.self || n.self, kids: union(last.kids, n.kids)}
		} else {
			out = append(out, n)
		}
	}
	return out
}
