package job

import (
	"slices"
	"strconv"
	"strings"
)

// indexes is a set of completion indexes as a Job's status writes it down:
// "1,3-5,7", of two neighbours "4,5".
type indexes []span

// span has both of its ends.
type span struct{ first, last int }

// parseIndexes reads a set, up to and without limit. What cannot be read ends
// it: the API server has validated it.
func parseIndexes(text string, limit int) (set indexes) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, wide := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first >= limit {
			return set
		}
		last := first
		if wide {
			if last, err = strconv.Atoi(to); err != nil {
				return set
			}
		}
		set = set.extend(first, min(last, limit-1))
	}
	return set
}

// extend adds a span that begins after all others.
func (s indexes) extend(first, last int) indexes {
	if n := len(s); n > 0 && s[n-1].last >= first-1 {
		s[n-1].last = max(s[n-1].last, last)
		return s
	}
	return append(s, span{first, last})
}

func (s indexes) has(i int) bool {
	_, found := slices.BinarySearchFunc(s, i, func(sp span, i int) int {
		switch {
		case sp.last < i:
			return -1
		case sp.first > i:
			return 1
		}
		return 0
	})
	return found
}

func (s indexes) total() (n int) {
	for _, sp := range s {
		n += sp.last - sp.first + 1
	}
	return n
}

// with is the set and more, which need no order.
func (s indexes) with(more []int) indexes {
	if len(more) == 0 {
		return s
	}
	all := slices.Clone(s)
	for _, i := range more {
		all = append(all, span{i, i})
	}
	slices.SortFunc(all, func(a, b span) int { return a.first - b.first })
	var sum indexes
	for _, sp := range all {
		sum = sum.extend(sp.first, sp.last)
	}
	return sum
}

// common counts what is in both sets.
func (s indexes) common(other indexes) (n int) {
	for i, j := 0, 0; i < len(s) && j < len(other); {
		first, last := max(s[i].first, other[j].first), min(s[i].last, other[j].last)
		n += max(0, last-first+1)
		if s[i].last < other[j].last {
			i++
		} else {
			j++
		}
	}
	return n
}

func (s indexes) String() string {
	var b strings.Builder
	for i, sp := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(sp.first))
		switch {
		case sp.last == sp.first+1:
			b.WriteByte(',')
			b.WriteString(strconv.Itoa(sp.last))
		case sp.last > sp.first:
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(sp.last))
		}
	}
	return b.String()
}
