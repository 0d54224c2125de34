package nodeipam

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// busy is a client in whose requests some nodes are changed by somebody else
// before each update.
type busy struct {
	client.Interface
	nodes map[string]bool
}

func (c busy) Update(ctx context.Context, res client.Resource, obj client.Object, subresource ...string) (client.Object, error) {
	if c.nodes[obj.GetName()] {
		other, err := client.Get[*corev1.Node](ctx, c.Interface, client.Nodes, "", obj.GetName())
		if err != nil {
			return nil, err
		}
		other = other.DeepCopy()
		metav1.SetMetaDataLabel(&other.ObjectMeta, "seen", fmt.Sprint("v", other.ResourceVersion))
		if _, err := c.Interface.Update(ctx, client.Nodes, other); err != nil {
			return nil, err
		}
	}
	return c.Interface.Update(ctx, res, obj, subresource...)
}

// TestBusyNodes: nodes that change all the time wait for their ranges alone. All
// others have theirs after one look, wherever they stand in the list; those that
// come to rest get theirs at the next.
func TestBusyNodes(t *testing.T) {
	c := apitest.New(t, apitest.Options{}).Client("loops")
	const count = 20
	b := busy{c, map[string]bool{}}
	for i := range count {
		name := fmt.Sprintf("n-%02d", i)
		if _, err := client.Create(t.Context(), c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		b.nodes[name] = i%3 == 0
	}
	ipam, err := New(controllers.Options{Client: b}, Config{Cluster: prefixes("10.42.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	check := func() (lacking int) {
		t.Helper()
		seen := map[string]string{}
		for i := range count {
			node, err := client.Get[*corev1.Node](t.Context(), c, client.Nodes, "", fmt.Sprintf("n-%02d", i))
			if err != nil {
				t.Fatal(err)
			}
			if node.Spec.PodCIDR == "" {
				lacking++
				if !b.nodes[node.Name] {
					t.Errorf("%s has no range", node.Name)
				}
				continue
			}
			if other, ok := seen[node.Spec.PodCIDR]; ok {
				t.Errorf("%s and %s have %s", other, node.Name, node.Spec.PodCIDR)
			}
			seen[node.Spec.PodCIDR] = node.Name
		}
		return lacking
	}
	if _, err := ipam.reconcile(t.Context(), all); !apierrors.IsConflict(err) {
		t.Errorf("a look that met a change says %v", err)
	}
	if n := check(); n != 7 {
		t.Errorf("%d of the 7 busy nodes have no range", n)
	}
	clear(b.nodes)
	if _, err := ipam.reconcile(t.Context(), all); err != nil {
		t.Error(err)
	}
	if n := check(); n != 0 {
		t.Errorf("%d nodes at rest have no range", n)
	}
}
