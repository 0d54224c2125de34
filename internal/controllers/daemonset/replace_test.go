package daemonset_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/daemonset"
)

// A daemon pod that has failed is replaced by one of another name each time:
// clients wait for the name to go.
func TestSuccessorHasAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c := h.Client("tester")
		for res, obj := range map[client.Resource]client.Object{client.Nodes: node(0), client.DaemonSets: set()} {
			if _, err := c.Create(t.Context(), res, obj); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		l := daemonset.New(controllers.Options{Client: h.Client("loops")})
		go func() { l.Run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
		had := map[string]bool{}
		for range 4 {
			time.Sleep(time.Minute)
			pods, _, err := c.List(ctx, client.Pods, "default", metav1.ListOptions{})
			if err != nil || len(pods) != 1 {
				t.Fatalf("there are %d pods, %v", len(pods), err)
			}
			pod := pods[0].(*corev1.Pod).DeepCopy()
			if had[pod.Name] {
				t.Errorf("a pod is again called %s", pod.Name)
			}
			had[pod.Name] = true
			pod.Status.Phase = corev1.PodFailed
			if _, err := c.Update(ctx, client.Pods, pod, "status"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
