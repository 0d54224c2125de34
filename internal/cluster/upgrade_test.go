package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
)

// whole runs a whole cluster of simulated nodes in dir until stop is called.
func whole(t *testing.T, dir string, nodes int, pods, services string) (c client.Interface, stop func()) {
	t.Helper()
	o := Options{DataDir: dir, Listen: "127.0.0.1:0", Nodes: fmt.Sprint("sim=", nodes)}
	if err := o.ClusterCIDRs.Set(pods); err != nil {
		t.Fatal(err)
	}
	if err := o.ServiceCIDRs.Set(services); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan Info, 1), make(chan error, 1)
	o.Ready = func(i Info) { ready <- i }
	go func() { ended <- Up(ctx, o) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	cfg, err := kubeconfig.Load(PartKubeconfig(dir, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	remote, err := client.NewRemote(cfg, client.Identity{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return remote, func() {
		remote.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// until waits for an object to be as wanted; say tells what of it counts.
func until[T client.Object](t *testing.T, c client.Interface, res client.Resource, namespace, name, want string, say func(T) string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		obj, err := client.Get[T](t.Context(), c, res, namespace, name)
		if err != nil {
			got = err.Error()
			continue
		}
		if got = say(obj); got == want {
			return
		}
	}
	t.Fatalf("%s %s: %s, want %s", res.Resource, name, got, want)
}

// TestUpgradeToTwoFamilies: a cluster that was made with one family gets a
// second at a later start. What is there stays as it is until somebody asks for
// more; what is new has both.
func TestUpgradeToTwoFamilies(t *testing.T) {
	dir := t.TempDir()
	ranges := func(n *corev1.Node) string { return fmt.Sprint(n.Spec.PodCIDRs) }
	cidrs := func(c *networkingv1.ServiceCIDR) string { return fmt.Sprint(c.Spec.CIDRs) }
	policy := corev1.IPFamilyPolicyPreferDualStack
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{IPFamilyPolicy: &policy, Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	}

	c, stop := whole(t, dir, 1, "10.42.0.0/16", "10.43.0.0/16")
	until(t, c, client.Nodes, "", "sim-0", "[10.42.0.0/24]", ranges)
	until(t, c, client.ServiceCIDRs, "", "kubernetes", "[10.43.0.0/16]", cidrs)
	old, err := client.Create(t.Context(), c, client.Services, service("old"))
	if err != nil {
		t.Fatal(err)
	}
	stop()

	c, stop = whole(t, dir, 2, "10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112")
	until(t, c, client.ServiceCIDRs, "", "kubernetes", "[10.43.0.0/16 fd00:43::/112]", cidrs)
	until(t, c, client.Nodes, "", "sim-0", "[10.42.0.0/24]", ranges)
	until(t, c, client.Nodes, "", "sim-1", "[10.42.1.0/24 fd00:42::/64]", ranges)
	until(t, c, client.Nodes, "", "sim-1", "[198.18.0.2 2001:2::2 sim-1]", func(n *corev1.Node) string {
		var at []string
		for _, a := range n.Status.Addresses {
			at = append(at, a.Address)
		}
		return fmt.Sprint(at)
	})
	patch := func(name, body string) *corev1.Service {
		t.Helper()
		obj, err := c.Patch(t.Context(), client.Services, "default", name, types.MergePatchType, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*corev1.Service)
	}
	if svc := patch("old", `{"metadata": {"labels": {"x": "y"}}}`); !slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		t.Errorf("the service that was there has %v now, and had %v", svc.Spec.ClusterIPs, old.Spec.ClusterIPs)
	}
	// As upstream: only who asks for two families anew gets them.
	svc := patch("old", `{"spec": {"ipFamilyPolicy": "RequireDualStack"}}`)
	if len(svc.Spec.ClusterIPs) != 2 || svc.Spec.ClusterIPs[0] != old.Spec.ClusterIP {
		text, _ := json.Marshal(svc.Spec)
		t.Errorf("once both are asked for: %s", text)
	}
	for _, ip := range svc.Spec.ClusterIPs {
		until(t, c, client.IPAddresses, "", ip, "old", func(a *networkingv1.IPAddress) string { return a.Spec.ParentRef.Name })
	}
	if svc, err := client.Create(t.Context(), c, client.Services, service("new")); err != nil || len(svc.Spec.ClusterIPs) != 2 {
		t.Errorf("a new service that prefers both: %v, error %v", svc, err)
	}
	stop()

	// A start that says nothing leaves it so.
	c, stop = whole(t, dir, 3, "", "")
	until(t, c, client.Nodes, "", "sim-2", "[10.42.2.0/24 fd00:42:0:1::/64]", ranges)
	stop()
}
