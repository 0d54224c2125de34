package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	sigTag = regexp.MustCompile(`^\[(sig-[a-z-]+)\]\s*`)
	anyTag = regexp.MustCompile(`\s*\[(Conformance|NodeConformance|Serial|Slow|Disruptive|Feature:[^\]]*|LinuxOnly|Environment:[^\]]*|Privileged:[^\]]*)\]`)
)

func sigOf(name string) string {
	if m := sigTag.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return "none"
}

// tidy is a test's name without the labels.
func tidy(name string) string {
	return strings.TrimSpace(anyTag.ReplaceAllString(sigTag.ReplaceAllString(name, ""), ""))
}

// counts of one SIG.
type counts struct{ passed, failed, skipped, missing int }

func (r *results) bySIG() map[string]counts {
	m := map[string]counts{}
	for _, o := range r.Tests {
		for _, sig := range []string{sigOf(o.Test), "all"} {
			c := m[sig]
			switch o.State {
			case "passed":
				c.passed++
			case "failed":
				c.failed++
			case "skipped":
				c.skipped++
			default:
				c.missing++
			}
			m[sig] = c
		}
	}
	return m
}

// table is the counts as Markdown.
func (r *results) table() string {
	var b strings.Builder
	b.WriteString("| SIG | passed | failed | skipped | not run |\n|---|---:|---:|---:|---:|\n")
	by := r.bySIG()
	sigs := slices.DeleteFunc(slices.Sorted(maps.Keys(by)), func(s string) bool { return s == "all" })
	for _, sig := range append(sigs, "all") {
		c := by[sig]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", sig, c.passed, c.failed, c.skipped, c.missing)
	}
	return b.String()
}

// page is all of it as Markdown.
func (r *results) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance\n\nThe conformance tests of Kubernetes %s against Setpoint, with two nodes and real containers.\n", r.Kubernetes)
	b.WriteString("`make conformance` runs them and writes this page, `make conformance FOCUS=regexp` runs some and replaces what is known\n" +
		"of those ([conformance.json](conformance.json) has the latest result of each). Building the whole suite takes the better\n" +
		"part of an hour, so that CI runs a small part of it (see [clients.md](clients.md)).\n\n")
	b.WriteString(r.table())
	b.WriteString("\nThe results come from:\n\n| date | commit | tests |\n|---|---|---:|\n")
	type run struct{ date, commit string }
	runs := map[run]int{}
	for _, o := range r.Tests {
		if o.State != "" {
			runs[run{o.Date, o.Commit}]++
		}
	}
	for _, one := range slices.SortedFunc(maps.Keys(runs), func(a, b run) int { return strings.Compare(a.date+a.commit, b.date+b.commit) }) {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", one.date, one.commit, runs[one])
	}
	for _, section := range []struct{ state, heading string }{{"failed", "What fails"}, {"skipped", "What skips itself"}, {"", "What has not been run"}} {
		first, sig := true, ""
		for _, o := range r.Tests {
			if o.State != section.state {
				continue
			}
			if first {
				fmt.Fprintf(&b, "\n## %s\n", section.heading)
				first = false
			}
			if s := sigOf(o.Test); s != sig {
				sig = s
				fmt.Fprintf(&b, "\n### %s\n\n", sig)
			}
			fmt.Fprintf(&b, "- %s", escape(tidy(o.Test)))
			if o.Why != "" {
				fmt.Fprintf(&b, ": %s", escape(o.Why))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// escape keeps Markdown from reading anything into words that are not its own.
func escape(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "`", "'", "*", "\\*").Replace(s)
}
