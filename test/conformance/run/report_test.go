package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const report = `[{"StartTime":"2026-11-29T20:00:00Z","SpecReports":[
{"ContainerHierarchyTexts":["[sig-cli] Kubectl client","Update Demo"],"LeafNodeType":"It","LeafNodeText":"should scale [Conformance]","LeafNodeLabels":["Conformance"],"State":"passed","RunTime":1500000000},
{"ContainerHierarchyTexts":["[sig-cli] Kubectl client",""],"ContainerHierarchyLabels":[["Conformance"],[]],"LeafNodeType":"It","LeafNodeText":"should not be asked for [Conformance]","State":"skipped"},
{"ContainerHierarchyTexts":["[sig-apps] Job"],"ContainerHierarchyLabels":[["Serial"]],"LeafNodeType":"It","LeafNodeText":"should fail [Serial] [Conformance]","LeafNodeLabels":["Conformance"],"State":"failed",
 "Failure":{"Message":"\nTimed out after 60s.\nExpected:\n  <*v1.Job | 0xc000a1>\nto be complete","Location":{"FileName":"/src/k8s.io/kubernetes/test/e2e/apps/job.go","LineNumber":42}}},
{"ContainerHierarchyTexts":["[sig-node] Pods"],"LeafNodeType":"It","LeafNodeText":"needs two nodes [Conformance]","LeafNodeLabels":["Conformance"],"State":"skipped","Failure":{"Message":"only one node"}},
{"ContainerHierarchyTexts":["[sig-node] Pods"],"LeafNodeType":"It","LeafNodeText":"takes long","LeafNodeLabels":["Conformance"],"State":"timedout",
 "Failure":{"Message":"A suite timeout occurred","ProgressReport":{"CurrentStepText":"waiting for the pod"}},
 "AdditionalFailures":[{"State":"failed","Failure":{"Message":"Nov 29 20:00:01.123: INFO: pod is Pending","Location":{"FileName":"pods.go","LineNumber":7}}}]},
{"ContainerHierarchyTexts":["[sig-node] Pods"],"LeafNodeType":"It","LeafNodeText":"panics","LeafNodeLabels":["Conformance"],"State":"panicked","Failure":{"Message":"Test Panicked","ForwardedPanic":"no such node","Location":{"FileName":"pods.go","LineNumber":8}}},
{"ContainerHierarchyTexts":["[sig-node] Pods"],"LeafNodeType":"It","LeafNodeText":"is cut off","LeafNodeLabels":["Conformance"],"State":"interrupted","Failure":{"Message":"Interrupted by User"}},
{"ContainerHierarchyTexts":["[sig-node] Pods"],"LeafNodeType":"It","LeafNodeText":"is no conformance test","State":"passed"},
{"LeafNodeType":"SynchronizedBeforeSuite","LeafNodeLabels":["Conformance"],"State":"passed"}]}]`

// TestReport: conformance tests only, and for each what became of it, a failure
// with its first words and its place on one line.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	specs, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []result
	for i := range specs {
		got = append(got, specs[i].result())
	}
	want := []result{
		{test: test{name: "[sig-cli] Kubectl client Update Demo should scale [Conformance]"}, state: "passed", seconds: 1.5},
		{test: test{name: "[sig-cli] Kubectl client should not be asked for [Conformance]"}},
		{test: test{"[sig-apps] Job should fail [Serial] [Conformance]", true}, state: "failed", why: "Timed out after 60s. Expected: <*v1.Job | 0x…> (job.go:42)"},
		{test: test{name: "[sig-node] Pods needs two nodes [Conformance]"}, state: "skipped", why: "only one node"},
		{test: test{name: "[sig-node] Pods takes long"}, state: "failed", why: "takes too long at: waiting for the pod; pod is Pending (pods.go:7)"},
		{test: test{name: "[sig-node] Pods panics"}, state: "failed", why: "panic: no such node (pods.go:8)"},
		{test: test{name: "[sig-node] Pods is cut off"}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%+v\nwant:\n%+v", got, want)
	}
}
