package event

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

func TestEventsName(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}, Spec: v1.PodSpec{
		InitContainers:      []v1.Container{{Name: "i"}},
		Containers:          []v1.Container{{Name: "c"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}}}
	for _, test := range []struct {
		name, kind, path string
		record           func(*Recorder)
	}{
		{"a pod", "Pod", "", func(r *Recorder) { r.Pod(pod, "", "Normal", "R", "%d", 1) }},
		{"an init container", "Pod", "spec.initContainers{i}", func(r *Recorder) { r.Pod(pod, "i", "Normal", "R", "%d", 1) }},
		{"a container", "Pod", "spec.containers{c}", func(r *Recorder) { r.Pod(pod, "c", "Normal", "R", "%d", 1) }},
		{"an ephemeral container", "Pod", "spec.ephemeralContainers{e}", func(r *Recorder) { r.Pod(pod, "e", "Normal", "R", "%d", 1) }},
		{"the node", "Node", "", func(r *Recorder) { r.Node("Normal", "R", "%d", 1) }},
		{"much", "Node", "", func(r *Recorder) { r.Node("Normal", "R", "1%s", strings.Repeat("x", 5000)) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := apitest.New(t, apitest.Options{}).Client("system:node:n")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := New(c, "n", slog.New(slog.DiscardHandler))
			go r.Run(ctx)
			test.record(r)
			synctest.Wait()
			got, _, err := client.List[*v1.Event](ctx, c, client.Events, "default", metav1.ListOptions{})
			if err != nil || len(got) != 1 {
				t.Fatalf("%s: %d events, %v", test.name, len(got), err)
			}
			e, uid := got[0], string(pod.UID)
			if test.kind == "Node" {
				uid = "n"
			}
			if e.InvolvedObject.Kind != test.kind || e.InvolvedObject.FieldPath != test.path || string(e.InvolvedObject.UID) != uid ||
				e.InvolvedObject.APIVersion != "v1" || e.Source.Component != "kubelet" || e.Source.Host != "n" || !strings.HasPrefix(e.Message, "1") {
				t.Errorf("%s: got %+v", test.name, e)
			}
		})
	}
}
