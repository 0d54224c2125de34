package disruption_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

var clusters = client.Resource{Group: "db.example.com", Version: "v1", Resource: "clusters"}

// definition is of a kind that counts its pods in spec.size, and has a scale or
// not.
func definition(scale bool) *apiextensionsv1.CustomResourceDefinition {
	free := true
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: clusters.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: clusters.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusters", Kind: "Cluster"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &free}}}},
		},
	}
	if scale {
		d.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"}}
	}
	return d
}

// Pods of a custom kind are counted by its scale, wherever that lies; without
// one they cannot be, and nothing may be evicted.
func TestCustomOwner(t *testing.T) {
	for _, scale := range []bool{true, false} {
		controllertest.Run(t, controllertest.Case{
			Loops: loops, Others: controllertest.Kubelets, End: status, Runs: 20,
			Start: func(w *controllertest.World) {
				w.Create(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), definition(scale))
				owner := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "db.example.com/v1", "kind": "Cluster",
					"metadata": map[string]any{"namespace": "default", "name": "c"}, "spec": map[string]any{"size": int64(5)}}}
				made, err := w.Client.Create(context.Background(), clusters, owner)
				for ; err != nil; made, err = w.Client.Create(context.Background(), clusters, owner) {
					time.Sleep(time.Second) // until the kind is served
				}
				for i := range 4 {
					w.Create(client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c-", i), Labels: labels,
						OwnerReferences: []metav1.OwnerReference{{APIVersion: "db.example.com/v1", Kind: "Cluster", Name: "c", UID: made.GetUID(), Controller: new(true)}}},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}})
				}
				three := intstr.FromInt(3)
				w.Create(client.PodDisruptionBudgets, budget("b", nil, &three))
			},
			Check: func(w *controllertest.World) error {
				st := w.Get(client.PodDisruptionBudgets, "default", "b").(*policyv1.PodDisruptionBudget).Status
				if scale && (st.ExpectedPods != 5 || st.DesiredHealthy != 2 || st.DisruptionsAllowed != 2) {
					return fmt.Errorf("of five there are four, and three may be away: %+v", st)
				}
				if c := st.Conditions[0]; !scale && (st.DisruptionsAllowed != 0 || c.Reason != policyv1.SyncFailedReason || c.Message != "clusters.db.example.com does not implement the scale subresource") {
					return fmt.Errorf("without a scale: %+v", st)
				}
				return nil
			},
		})
	}
}
