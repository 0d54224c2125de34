package main

import (
	"strings"
	"testing"
)

// TestTell: ginkgo's tests are counted one by one, plain ones as Go does, and a
// package that breaks is not taken for one without tests.
func TestTell(t *testing.T) {
	events := `
{"Action":"output","Package":"sigs.k8s.io/controller-runtime/pkg/a","Test":"TestA","Output":"\u001b[38;5;9m[FAIL] Client should watch\u001b[0m\n"}
{"Action":"output","Package":"sigs.k8s.io/controller-runtime/pkg/a","Test":"TestA","Output":"  [FAIL] Client should watch\n"}
{"Action":"output","Package":"sigs.k8s.io/controller-runtime/pkg/a","Test":"TestA","Output":"FAIL! -- \u001b[1m7 Passed\u001b[0m | 1 Failed | 0 Pending | 2 Skipped\n"}
{"Action":"fail","Package":"sigs.k8s.io/controller-runtime/pkg/a","Test":"TestA"}
{"Action":"fail","Package":"sigs.k8s.io/controller-runtime/pkg/a"}
{"Action":"pass","Package":"sigs.k8s.io/controller-runtime/pkg/b","Test":"TestOne"}
{"Action":"skip","Package":"sigs.k8s.io/controller-runtime/pkg/b","Test":"TestTwo"}
{"Action":"pass","Package":"sigs.k8s.io/controller-runtime/pkg/b"}
{"Action":"output","Package":"sigs.k8s.io/controller-runtime/pkg/c","Output":"panic: no\n"}
{"Action":"fail","Package":"sigs.k8s.io/controller-runtime/pkg/c"}
{"Action":"skip","Package":"sigs.k8s.io/controller-runtime/pkg/d"}
`
	var out strings.Builder
	total, err := tell(strings.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	if total.passed != 8 || total.failed != 1 || total.skipped != 3 || total.broken != 1 {
		t.Errorf("total: %+v", total)
	}
	want := `package                                               passed  failed skipped
pkg/a                                                      7       1       2
    FAIL Client should watch
pkg/b                                                      1       0       1
pkg/c                                                      0       0       0
    the package ended without a result
all                                                        8       1       3
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
