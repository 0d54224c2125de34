package pod_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A pod that claims devices never starts without them, and says why.
func TestDevicesAreMissing(t *testing.T) {
	bubble(t, `
spec:
  resourceClaims: [{name: gpu, resourceClaimName: one}]
  containers: [{name: main, image: "img:1", command: [run], resources: {claims: [{name: gpu}]}}]
`, func(w *world) {
		p := w.after(time.Minute)
		if p.Status.Phase == v1.PodRunning || slices.Contains(w.rt.Calls(), "RunPodSandbox p") {
			w.t.Errorf("it was started: %q, status %+v", w.rt.Calls(), p.Status)
		}
		want := `FailedPrepareDynamicResources: Failed to prepare dynamic resources: failed to fetch ResourceClaim one referenced by pod p: `
		if !slices.ContainsFunc(w.events, func(e string) bool { return strings.HasPrefix(e, want) }) {
			w.t.Errorf("events are %q", w.events)
		}
	})
}
