package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// pod of the demo; ready ones have an address.
func demoPod(name, ip string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Spec.NodeName, p.Status.PodIP = name, "node", ip
	if ip != "" {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func demoDeploymentOf(replicas, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Spec.Replicas, d.Status.ReadyReplicas = "hello", &replicas, ready
	return d
}

func demoSlice(ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}

// demoServer has the demo's objects; when a pod is deleted it replaces it.
type demoServer struct {
	t       *testing.T
	created bool // what is filed is new
	pods    []*corev1.Pod
	slice   *discoveryv1.EndpointSlice
	deploy  *appsv1.Deployment
	watches map[string]chan string // by kind; lines
}

func (s *demoServer) send(kind, event string, object any) {
	data, err := json.Marshal(map[string]any{"type": event, "object": object})
	if err != nil {
		s.t.Error(err)
	}
	s.watches[kind] <- string(data) + "\n"
}

func (s *demoServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case r.Method == http.MethodPost && !s.created:
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"kind":"Status","message":"%s \"hello\" already exists"}`, kind)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete:
		go func() {
			s.send("pods", "DELETED", demoPod(kind, "10.0.0.1"))
			s.send("pods", "ADDED", demoPod("new", ""))
			s.send("pods", "MODIFIED", demoPod("new", "10.0.0.9"))
			s.send("endpointslices", "MODIFIED", demoSlice("10.0.0.2", "10.0.0.9"))
		}()
	case r.URL.Query().Get("watch") != "":
		if got := r.URL.Query().Get("resourceVersion"); got != "7" {
			s.t.Errorf("watch of %s from %q, want the list's", kind, got)
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-s.watches[kind]:
				fmt.Fprint(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	default:
		var items []any
		switch kind {
		case "pods":
			for _, p := range s.pods {
				items = append(items, p)
			}
		case "endpointslices":
			items = append(items, s.slice)
		case "deployments":
			items = append(items, s.deploy)
		}
		json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"resourceVersion": "7"}, "items": items})
	}
}

func runDemo(t *testing.T, s *demoServer) (string, error) {
	t.Helper()
	s.t = t
	s.watches = map[string]chan string{"pods": make(chan string), "endpointslices": make(chan string), "deployments": make(chan string)}
	server := httptest.NewServer(s)
	defer server.Close()
	defer server.CloseClientConnections()
	var out strings.Builder
	d := &demo{api: &api{server.URL, server.Client()}, out: &out, changes: make(chan change)}
	err := d.run(t.Context())
	return out.String(), err
}

// TestDemoAgain: what is there from an earlier run, scaled meanwhile, is not
// told as if it were new; what happens to the pod that is deleted is.
func TestDemoAgain(t *testing.T) {
	out, err := runDemo(t, &demoServer{
		pods:   []*corev1.Pod{demoPod("a", "10.0.0.1"), demoPod("b", "10.0.0.2")},
		slice:  demoSlice("10.0.0.1", "10.0.0.2"),
		deploy: demoDeploymentOf(2, 2),
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, after, found := strings.Cut(out, "delete pod a\n")
	if !found || !strings.HasPrefix(before, "the claim is filed already") || !strings.Contains(before, "all 2 replicas are ready") || strings.Contains(before, " ms  replicaset") || strings.Contains(before, " ms  kubelet") {
		t.Errorf("before the deletion it said:\n%s", before)
	}
	for _, want := range []string{"pod a is gone", "create pod new", "pod new runs at 10.0.0.9", "10.0.0.9 takes connections", "10.0.0.1 takes no new connections"} {
		if !strings.Contains(after, want) {
			t.Errorf("after the deletion it does not say %q:\n%s", want, after)
		}
	}
}

// TestDemoScaledToZero: without a pod there is nothing to show, and no wait.
func TestDemoScaledToZero(t *testing.T) {
	out, err := runDemo(t, &demoServer{slice: demoSlice(), deploy: demoDeploymentOf(0, 0)})
	if err == nil || !strings.Contains(err.Error(), "scaled to 0") {
		t.Errorf("got error %v and\n%s", err, out)
	}
}
