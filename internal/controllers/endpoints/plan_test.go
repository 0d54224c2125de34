package endpoints

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func makeService(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{ClusterIP: "10.43.0.10", Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}}}}
	for _, f := range change {
		f(s)
	}
	return s
}

// makePod returns a ready pod with the address 10.42.0.n and the port "http".
func makePod(n int, port int32, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("uid", n)), CreationTimestamp: metav1.NewTime(now)},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.42.%d.%d", n/250, n%250),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func deleted(p *corev1.Pod) { at := metav1.NewTime(now); p.DeletionTimestamp = &at }

func show(e *corev1.Endpoints) string {
	var subsets []string
	for _, s := range e.Subsets {
		var words []string
		for _, a := range s.Addresses {
			words = append(words, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			words = append(words, "("+a.IP+")")
		}
		for _, p := range s.Ports {
			words = append(words, fmt.Sprintf("@%d/%s", p.Port, p.Protocol))
		}
		subsets = append(subsets, strings.Join(words, " "))
	}
	return strings.Join(subsets, "; ")
}

func TestPlan(t *testing.T) {
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	for _, test := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		{name: "no pods", service: makeService()},
		{name: "ready and not", service: makeService(), pods: []*corev1.Pod{makePod(2, 80), makePod(1, 80), makePod(3, 80, unready)}, want: "10.42.0.1 10.42.0.2 (10.42.0.3) @80/TCP"},
		{name: "terminating", service: makeService(), pods: []*corev1.Pod{makePod(1, 80, deleted)}},
		{name: "published", service: makeService(publish), pods: []*corev1.Pod{makePod(1, 80, unready), makePod(2, 80, deleted)}, want: "10.42.0.1 10.42.0.2 @80/TCP"},
		{name: "ports differ", service: makeService(), pods: []*corev1.Pod{makePod(1, 90), makePod(2, 80)}, want: "10.42.0.2 @80/TCP; 10.42.0.1 @90/TCP"},
		{name: "no such port", service: makeService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("x") }), pods: []*corev1.Pod{makePod(1, 80)}},
		{name: "no ports", service: makeService(func(s *corev1.Service) { s.Spec.Ports = nil }), pods: []*corev1.Pod{makePod(1, 80)}, want: "10.42.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan(test.service, test.pods, nil)
			if show(got) != test.want {
				t.Errorf("got  %s\nwant %s", show(got), test.want)
			}
			if again := plan(test.service, test.pods, got); again != nil {
				t.Errorf("against a world already right: %s", show(again))
			}
		})
	}
}

func TestLabelsAndCapacity(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxAddresses + 5 {
		pods = append(pods, makePod(i, 80))
	}
	unready(pods[0])
	got := plan(makeService(), pods, nil)
	if n := len(got.Subsets[0].Addresses) + len(got.Subsets[0].NotReadyAddresses); n != maxAddresses || len(got.Subsets[0].NotReadyAddresses) != 0 {
		t.Errorf("%d addresses, %d not ready", n, len(got.Subsets[0].NotReadyAddresses))
	}
	if got.Annotations[corev1.EndpointsOverCapacity] != "truncated" || got.Labels[managedBy] != ours || got.Labels["app"] != "web" {
		t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
	}
	got = plan(makeService(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), pods[:5], got)
	if _, ok := got.Annotations[corev1.EndpointsOverCapacity]; ok {
		t.Error("still over capacity")
	}
	if _, ok := got.Labels[corev1.IsHeadlessService]; !ok {
		t.Error("not marked as headless")
	}
}
