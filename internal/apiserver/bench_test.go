package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// The benchmarks leave out the network: what is measured is the path from the
// parsed HTTP request to the written answer, on a store in memory.

var kilobyte = strings.Repeat("x", 1024)

type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

func request(method, path, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, path, r)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func fill(b *testing.B, h *apitest.Harness, n int) {
	b.Helper()
	c := h.Client("bench")
	for i := range n {
		if _, err := c.Create(context.Background(), configMaps, configMap(fmt.Sprintf("cm-%05d", i), "k", kilobyte)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-%d"},"data":{"k":"%s"}}`, n.Add(1), kilobyte)
			h.Server.ServeHTTP(&nowhere{http.Header{}}, request("POST", cmPath, body))
		}
	})
}

func BenchmarkGet(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	fill(b, h, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Server.ServeHTTP(&nowhere{http.Header{}}, request("GET", fmt.Sprintf("%s/cm-%05d", cmPath, i%100), ""))
	}
}

func BenchmarkList10000(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	fill(b, h, 10000)
	b.ReportAllocs()
	for b.Loop() {
		h.Server.ServeHTTP(&nowhere{http.Header{}}, request("GET", cmPath, ""))
	}
}

// BenchmarkFanout counts events: each write goes to 100 watchers.
func BenchmarkFanout(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	c := h.Client("bench")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const watchers = 100
	got := make(chan int, watchers)
	create := func(i int) {
		if _, err := c.Create(ctx, configMaps, configMap(fmt.Sprintf("cm-%d", i), "k", kilobyte)); err != nil {
			b.Error(err)
		}
	}
	for range watchers {
		w, err := c.Watch(ctx, configMaps, "default", metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			n := 0
			for range w.ResultChan() {
				if n++; n == b.N {
					break
				}
			}
			got <- n
		}()
	}
	b.ResetTimer()
	for i := range b.N {
		create(i)
	}
	for range watchers {
		<-got
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*watchers), "ns/event")
}

// BenchmarkPodLife is what a pod costs in this process: created, bound, said to
// run, deleted.
func BenchmarkPodLife(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	c := h.Client("bench")
	v := c.View(pods, client.ViewOptions{})
	v.Index("node", func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} })
	ctx := context.Background()
	zero := int64(0)
	must := func(_ client.Object, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("p-%d", i)
		must(c.Create(ctx, pods, pod(name, "")))
		must(c.Create(ctx, pods, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, "binding"))
		obj, err := c.Get(ctx, pods, "default", name)
		must(obj, err)
		p := obj.DeepCopyObject().(*corev1.Pod)
		p.Status.Phase = corev1.PodRunning
		must(c.Update(ctx, pods, p, "status"))
		must(nil, c.Delete(ctx, pods, "default", name, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	}
}
