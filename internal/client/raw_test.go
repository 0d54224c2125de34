package client_test

import (
	"encoding/json"
	"net/url"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// In process and over the network a path is answered alike.
func TestRaw(t *testing.T) {
	ctx, r, h := remote(t)
	labels := map[string]string{"app": "web"}
	if _, err := r.Create(ctx, client.Deployments, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}); err != nil {
		t.Fatal(err)
	}
	const at = "/apis/apps/v1/namespaces/default/deployments"
	for name, c := range map[string]client.Interface{"in process": h.Client("loop"), "remote": r} {
		data, err := c.Raw(ctx, at+"/web/scale", nil)
		var scale autoscalingv1.Scale
		if err == nil {
			err = json.Unmarshal(data, &scale)
		}
		if err != nil || scale.Spec.Replicas != 3 || scale.Status.Selector != "app=web" {
			t.Fatalf("%s: %v, %s", name, err, data)
		}
		// What was read can be written, with the revision that it was read at.
		stale := scale
		stale.ResourceVersion = "1"
		if _, err := c.Update(ctx, client.Deployments, &stale, "scale"); !apierrors.IsConflict(err) {
			t.Errorf("%s: an update of an old scale: %v", name, err)
		}
		if _, err := c.Update(ctx, client.Deployments, &scale, "scale"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := c.Raw(ctx, at, url.Values{"labelSelector": {"no=one"}}); err != nil || json.Unmarshal(data, &struct{}{}) != nil {
			t.Errorf("%s: %v, %s", name, err, data)
		} else if list := (appsv1.DeploymentList{}); json.Unmarshal(data, &list) != nil || list.Kind != "DeploymentList" || len(list.Items) != 0 {
			t.Errorf("%s: the query was not heard: %s", name, data)
		}
		for _, path := range []string{at + "/none/scale", "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/x", "/none"} {
			if _, err := c.Raw(ctx, path, nil); !apierrors.IsNotFound(err) {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
	}
}
