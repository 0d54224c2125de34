package setpoint_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint"
)

// Beside simulated nodes no address of a service leads anywhere: a webhook at
// one is not dialled, and who is refused because of it is told why.
func TestWebhookBesideSimulatedNodes(t *testing.T) {
	c := client(t, start(t, setpoint.Options{SimulatedNodes: 1}))
	ctx := t.Context()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	if _, err := c.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
		}}}
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hooks, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		begin := time.Now()
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %s: %v, want %q", time.Since(begin), err, want)
		}
	}
	refused("has no ready endpoints")
	port, node := int32(443), "sim-0"
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.42.0.9"}, NodeName: &node}}}
	if _, err := c.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused("simulated nodes: there is nothing to connect to")
}

// Nor is an address of the cluster dialled that somebody else says: a URL, an
// ExternalName, an endpoint of no node.
func TestAddressesBesideSimulatedNodes(t *testing.T) {
	c := client(t, start(t, setpoint.Options{SimulatedNodes: 1}))
	ctx := t.Context()
	var ip string
	for ip == "" {
		node, err := c.CoreV1().Nodes().Get(ctx, "sim-0", metav1.GetOptions{})
		if p, perr := netip.ParsePrefix(node.Spec.PodCIDR); err == nil && perr == nil {
			ip = p.Addr().Next().Next().String()
		} else if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	const want = "an address of the cluster"
	for name, spec := range map[string]corev1.ServiceSpec{
		"named":   {Type: corev1.ServiceTypeExternalName, ExternalName: ip},
		"nowhere": {Ports: []corev1.ServicePort{{Port: 80}}},
	} {
		if _, err := c.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	port := int32(80)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "nowhere", Labels: map[string]string{discoveryv1.LabelServiceName: "nowhere"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}}}}
	if _, err := c.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answer, err := c.CoreV1().Services("default").ProxyGet("http", "nowhere", "80", "/", nil).DoRaw(ctx)
	if err == nil || !strings.Contains(string(answer), want) {
		t.Errorf("the proxy of a service: %v, %s", err, answer)
	}
	url := "https://" + ip + "/"
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	for name, to := range map[string]admissionregistrationv1.WebhookClientConfig{
		"url":     {URL: &url},
		"service": {Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "named"}},
	} {
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: name + ".example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, ClientConfig: to,
				Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
			}}}
		if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hooks, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name+".example.com") {
			t.Errorf("a webhook by %s: %v", name, err)
		}
		if err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
