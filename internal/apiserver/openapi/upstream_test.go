package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

var update = flag.Bool("update", false, "rewrite testdata/upstream.txt.gz from SETPOINT_OPENAPI, and testdata/differences.txt")

const (
	upstreamFile    = "testdata/upstream.txt.gz"
	differencesFile = "testdata/differences.txt"
)

// TestAsUpstream compares our documents (v3), but for the texts in them, with
// those that Kubernetes 1.37 publishes: what they say stands in
// testdata/upstream.txt.gz, a line for each fact, and every difference in
// testdata/differences.txt: "-" for what only theirs say, "+" for what only
// ours do.
func TestAsUpstream(t *testing.T) {
	if dir := os.Getenv("SETPOINT_OPENAPI"); *update && dir != "" {
		var buf bytes.Buffer
		zip := gzip.NewWriter(&buf)
		io.WriteString(zip, strings.Join(publishedFacts(t, dir), "\n"))
		zip.Close()
		if err := os.WriteFile(upstreamFile, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(upstreamFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Split(string(text), "\n")
	if len(theirs) < 10000 {
		t.Fatalf("only %d facts", len(theirs))
	}
	s := New("v1.37.2", all.Kinds, nil).snapshot()
	found := facts{}
	for i := range s.groups {
		found.read(t, s.jsonV3(&s.groups[i]))
	}
	ours := found.sorted()
	var lines []string
	for _, line := range theirs {
		if _, ok := found[line]; !ok {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range ours {
		if _, ok := slices.BinarySearch(theirs, line); !ok {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	got := strings.Join(gathered(lines), "\n") + "\n"
	t.Logf("%d facts of theirs, %d of ours, %d differ", len(theirs), len(ours), len(lines))
	if *update {
		if err := os.WriteFile(differencesFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the differences are others (-known +found):\n%s", diff)
	}
}

// gathered says once what differs in the same way at many paths.
func gathered(lines []string) []string {
	const many = 4
	at := map[string]int{}
	key := func(line string) string {
		parts := strings.SplitN(line, " ", 4) // sign, method, path, rest
		if parts[1] == "model" || len(parts) < 4 {
			return ""
		}
		return parts[0] + " " + parts[1] + " * " + parts[3]
	}
	for _, line := range lines {
		at[key(line)]++
	}
	var out []string
	for _, line := range lines {
		switch k := key(line); {
		case k == "" || at[k] == 0 && k != "":
			if k == "" {
				out = append(out, line)
			}
		case at[k] < many:
			out = append(out, line)
		default:
			out = append(out, fmt.Sprintf("%s (at %d paths)", k, at[k]))
			at[k] = 0
		}
	}
	return out
}

func publishedFacts(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := facts{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found.read(t, data)
	}
	return found.sorted()
}

// facts are what documents say, a line each.
type facts map[string]bool

func (f facts) sorted() []string { return slices.Sorted(maps.Keys(f)) }

func (f facts) say(format string, args ...any) { f[fmt.Sprintf(format, args...)] = true }

type anyMap = map[string]any

func (f facts) read(t *testing.T, data []byte) {
	var doc struct {
		Paths      map[string]anyMap
		Components struct{ Schemas map[string]anyMap }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for name, schema := range doc.Components.Schemas {
		f.schema("model "+name, schema)
	}
	for path, item := range doc.Paths {
		f.path(path, item)
	}
}

func (f facts) schema(name string, schema anyMap) {
	for key, value := range schema {
		switch key {
		case "description":
		case "properties":
			for field, p := range value.(anyMap) {
				f.schema(name+"."+field, p.(anyMap))
			}
		case "required":
			for _, field := range value.([]any) {
				f.say("%s.%v required", name, field)
			}
		case "x-kubernetes-group-version-kind":
			for _, gvk := range value.([]any) {
				f.say("%s is %s", name, inJSON(gvk))
			}
		default:
			f.say("%s %s %s", name, key, inJSON(plain(value)))
		}
	}
}

// plain is a schema without its texts.
func plain(v any) any {
	if m, ok := v.(anyMap); ok {
		m = maps.Clone(m)
		delete(m, "description")
		for k := range m {
			m[k] = plain(m[k])
		}
		return m
	}
	return v
}

func inJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

func (f facts) path(path string, item anyMap) {
	shared, _ := item["parameters"].([]any)
	for method, op := range item {
		op, ok := op.(anyMap)
		if !ok {
			continue
		}
		at := method + " " + path
		f.say("%s %s %s %s", at, op["x-kubernetes-action"], inJSON(op["x-kubernetes-group-version-kind"]), op["operationId"])
		own, _ := op["parameters"].([]any)
		for _, p := range slices.Concat(shared, own) {
			p := p.(anyMap)
			f.say("%s parameter %s %s %s", at, p["in"], p["name"], inJSON(plain(p["schema"])))
		}
		if body, ok := op["requestBody"].(anyMap); ok {
			f.content(at+" takes", body)
		}
		responses, _ := op["responses"].(anyMap)
		for code, r := range responses {
			f.say("%s gives %s", at, code)
			f.content(at+" gives "+code, r.(anyMap))
		}
	}
}

func (f facts) content(at string, body anyMap) {
	content, _ := body["content"].(anyMap)
	for media, c := range content {
		f.say("%s %s %s", at, media, inJSON(plain(c.(anyMap)["schema"])))
	}
}
