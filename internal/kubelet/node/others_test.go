package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWithOthers: what others have put into the node's capacity stays there,
// and is allocatable as far as they say; what is Kubernetes' own, or no longer
// in the capacity, is not taken over.
func TestWithOthers(t *testing.T) {
	list := func(pairs ...string) v1.ResourceList {
		l := v1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	own := list("cpu", "2", "memory", "1Gi")
	capacity := list("cpu", "8", "memory", "2Gi", "hugepages-2Mi", "0", "example.com/a", "5", "scheduling.k8s.io/foo", "3", "kubernetes.io/x", "1", "node.kubernetes.io/y", "1")
	there := list("cpu", "8", "example.com/a", "4", "example.com/gone", "1")
	for name, tc := range map[string]struct{ there, want v1.ResourceList }{
		"capacity":    {capacity, list("cpu", "2", "memory", "1Gi", "example.com/a", "5", "scheduling.k8s.io/foo", "3")},
		"allocatable": {there, list("cpu", "2", "memory", "1Gi", "example.com/a", "4", "scheduling.k8s.io/foo", "3")},
	} {
		if got := withOthers(own, capacity, tc.there); !equality.Semantic.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	if len(own) != 2 {
		t.Errorf("the node's own is %v", own)
	}
}
