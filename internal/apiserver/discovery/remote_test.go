package discovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// What another server serves stands among the rest; what does not answer is
// stale.
func TestRemote(t *testing.T) {
	gv := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}
	h := New(func() []*kinds.Kind { return nil }, nil)
	h.Merge(func() []Remote {
		return []Remote{{GroupVersion: gv, Resources: &metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "gauges", SingularName: "gauge", Kind: "Gauge", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			{Name: "gauges/status", Kind: "Gauge", Verbs: metav1.Verbs{"update"}},
		}}}}
	})
	s := h.snapshot()
	if !s.serves("/apis/metrics.example.com/v1") {
		t.Fatal("the version is not served")
	}
	kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: "Gauge"}
	want := []apidiscovery.APIVersionDiscovery{{
		Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessStale,
		Resources: []apidiscovery.APIResourceDiscovery{{
			Resource: "gauges", SingularResource: "gauge", Scope: apidiscovery.ScopeNamespace, Verbs: []string{"get"}, ResponseKind: kind,
			Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "status", Verbs: []string{"update"}, ResponseKind: kind}},
		}},
	}}
	if diff := cmp.Diff(want, s.aggregate(false).Items[0].Versions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := resourceList(s.groups[0], s.groups[0].versions[0]); got.GroupVersion != gv.String() || len(got.APIResources) != 2 {
		t.Errorf("the legacy document is %+v", got)
	}
}
