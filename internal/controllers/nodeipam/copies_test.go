package nodeipam

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// interrupted is a client before whose n-th request something else happens;
// with die, the request and all that follow are never sent.
type interrupted struct {
	client.Interface
	n, done int
	before  func()
	die     bool
}

var errDied = fmt.Errorf("it died")

func (c *interrupted) count() error {
	c.done++
	if c.done == c.n {
		c.before()
	}
	if c.die && c.done >= c.n {
		return errDied
	}
	return nil
}

func (c *interrupted) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	if err := c.count(); err != nil {
		return nil, err
	}
	return c.Interface.Get(ctx, res, namespace, name)
}

func (c *interrupted) List(ctx context.Context, res client.Resource, namespace string, opts metav1.ListOptions) ([]client.Object, string, error) {
	if err := c.count(); err != nil {
		return nil, "", err
	}
	return c.Interface.List(ctx, res, namespace, opts)
}

func (c *interrupted) Create(ctx context.Context, res client.Resource, obj client.Object, subresource ...string) (client.Object, error) {
	if err := c.count(); err != nil {
		return nil, err
	}
	return c.Interface.Create(ctx, res, obj, subresource...)
}

func (c *interrupted) Update(ctx context.Context, res client.Resource, obj client.Object, subresource ...string) (client.Object, error) {
	if err := c.count(); err != nil {
		return nil, err
	}
	return c.Interface.Update(ctx, res, obj, subresource...)
}

// TestTwoCopies: before the n-th request of one copy another one, for which a
// further node is there, sends its first few and dies. The first goes on, or dies
// as well, and a third comes after them. No range is given twice, every node gets
// its own, and no promise is left.
func TestTwoCopies(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for k := 2; k <= 9; k++ {
			for _, die := range []bool{false, true} {
				for _, before := range []bool{false, true} { // whether the record is there already
					t.Run(fmt.Sprint("one=", n, " other=", k, " die=", die, " record=", before), func(t *testing.T) {
						twoCopies(t, n, k, die, before)
					})
				}
			}
		}
	}
}

func twoCopies(t *testing.T, n, k int, die, before bool) {
	c := apitest.New(t, apitest.Options{}).Client("loops")
	nodes := c.View(client.Nodes, client.ViewOptions{})
	copyOver := func(c client.Interface) *Controller {
		ipam, err := New(controllers.Options{Client: c}, Config{Cluster: prefixes("10.42.0.0/21 fd00::/61")})
		if err != nil {
			t.Fatal(err)
		}
		return ipam
	}
	create := func(name string) {
		if _, err := client.Create(t.Context(), c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	finish := func() {
		ipam := copyOver(c)
		for range 4 {
			if _, err := ipam.reconcile(t.Context(), all); err != nil {
				t.Error(err)
			}
		}
	}
	if before {
		create("old")
		finish()
	}
	create("m")
	create("n")
	one := copyOver(&interrupted{Interface: c, n: n, die: die, before: func() {
		create("a") // before the others of this second
		other := copyOver(&interrupted{Interface: c, n: k, die: true, before: func() {}})
		for range 3 {
			_, _ = other.reconcile(t.Context(), all) // it dies
		}
	}})
	for range 3 {
		_, _ = one.reconcile(t.Context(), all) // the other was faster, or it dies
	}
	finish()
	owner := map[string]string{}
	for _, node := range client.Listed[*corev1.Node](nodes, "") {
		if len(node.Spec.PodCIDRs) != 2 {
			t.Errorf("%s has %v", node.Name, node.Spec.PodCIDRs)
		}
		for _, p := range node.Spec.PodCIDRs {
			if owner[p] != "" {
				t.Errorf("%s and %s share %s", owner[p], node.Name, p)
			}
			owner[p] = node.Name
		}
	}
	if r, err := readRecord(t.Context(), c); err != nil || len(r.promised) > 0 {
		t.Errorf("still promised: %v, error %v", r.promised, err)
	}
}

// TestRecordOfOthers: whatever somebody has made of the record, nodes get their
// ranges.
func TestRecordOfOthers(t *testing.T) {
	yes, huge := true, map[string]string{}
	for i := range 10_000 {
		huge[fmt.Sprintf("%036d", i)] = "10.42.0.0/24,fd00::/64"
	}
	for name, record := range map[string]*corev1.ConfigMap{
		"immutable": {Immutable: &yes, Data: map[string]string{"gone": "10.42.0.0/24"}},
		"rubbish":   {Data: map[string]string{"self": "rubbish", "0": ""}, BinaryData: map[string][]byte{"binary": {0xff}}},
		"huge":      {Data: huge},
	} {
		t.Run(name, func(t *testing.T) {
			c := apitest.New(t, apitest.Options{}).Client("loops")
			node, err := client.Create(t.Context(), c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			if err != nil {
				t.Fatal(err)
			}
			record.Namespace, record.Name = metav1.NamespaceSystem, recordName
			if text, ok := record.Data["self"]; ok {
				record.Data[string(node.UID)] = text
			}
			if _, err := client.Create(t.Context(), c, client.ConfigMaps, record); err != nil {
				t.Fatal(err)
			}
			ipam, err := New(controllers.Options{Client: c}, Config{Cluster: prefixes("10.42.0.0/21 fd00::/61")})
			for range 4 {
				if err == nil {
					_, err = ipam.reconcile(t.Context(), all)
				}
			}
			if err != nil {
				t.Error(err)
			}
			if node, err = client.Get[*corev1.Node](t.Context(), c, client.Nodes, "", "n"); err != nil || len(node.Spec.PodCIDRs) != 2 {
				t.Errorf("it has %v, %v", node.Spec.PodCIDRs, err)
			}
			if r, err := readRecord(t.Context(), c); err != nil || len(r.promised) > 0 {
				t.Errorf("still promised: %d, %v", len(r.promised), err)
			}
		})
	}
}
