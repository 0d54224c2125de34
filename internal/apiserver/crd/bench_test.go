package crd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/client"
)

// send makes a request, wants an answer below 300, and returns the revision that
// it names.
func send(b *testing.B, h *apitest.Harness, method, path, body string) string {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.Server.ServeHTTP(w, r)
	if w.Code >= 300 {
		b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	_, rest, _ := strings.Cut(w.Body.String(), `"resourceVersion":"`)
	revision, _, _ := strings.Cut(rest, `"`)
	return revision
}

// establish creates definitions and returns when all are established.
func establish(b testing.TB, c client.Interface, texts ...string) {
	seen, err := c.Watch(b.Context(), crd.Definitions, "", metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer seen.Stop()
	var wg sync.WaitGroup
	queue := make(chan string)
	for range 4 {
		wg.Go(func() {
			for text := range queue {
				if _, err := c.Create(b.Context(), crd.Definitions, definition(b, text)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	go func() {
		for _, text := range texts {
			queue <- text
		}
		close(queue)
	}()
	done := map[string]bool{}
	for len(done) < len(texts) {
		ev := <-seen.ResultChan()
		d := ev.Object.(*apiextensionsv1.CustomResourceDefinition)
		for _, cond := range d.Status.Conditions {
			if cond.Type == apiextensionsv1.Established && cond.Status == apiextensionsv1.ConditionTrue {
				done[d.Name] = true
			}
		}
	}
	wg.Wait()
}

// BenchmarkObjects compares a custom kind with ConfigMaps.
func BenchmarkObjects(b *testing.B) {
	h := apitest.New(b, apitest.Options{Mutable: true})
	establish(b, h.Client("admin"), crontabs)
	for _, kind := range []struct{ name, path, body string }{
		{"ConfigMap", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"web"}},"data":{"cronSpec":"* * * * *","image":"registry/app:v1","replicas":"3"}}`},
		{"Custom", "/apis/stable.example.com/v1/namespaces/default/crontabs", `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":%q,"labels":{"app":"web"}},"spec":{"cronSpec":"* * * * *","image":"registry/app:v1","replicas":3}}`},
	} {
		n := 0
		b.Run(kind.name+"/create", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				send(b, h, http.MethodPost, kind.path, fmt.Sprintf(kind.body, fmt.Sprint("o", n)))
			}
		})
		b.Run(kind.name+"/update", func(b *testing.B) {
			b.ReportAllocs()
			revision := send(b, h, http.MethodGet, kind.path+"/o1", "")
			for b.Loop() {
				n++
				body := fmt.Sprintf(strings.Replace(kind.body, `"labels"`, `"resourceVersion":%q,"labels"`, 1), "o1", revision)
				revision = send(b, h, http.MethodPut, kind.path+"/o1", strings.Replace(body, "app:v1", fmt.Sprint("app:v", n), 1))
			}
		})
		b.Run(kind.name+"/get", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				send(b, h, http.MethodGet, kind.path+"/o1", "")
			}
		})
	}
}

// BenchmarkEstablish serves a thousand definitions and tells what each keeps in
// memory.
func BenchmarkEstablish(b *testing.B) {
	const count = 1000
	for b.Loop() {
		h := apitest.New(b, apitest.Options{Mutable: true})
		texts := make([]string, count)
		for i := range texts {
			texts[i] = strings.NewReplacer("crontabs", fmt.Sprint("crontab", i, "s"), "CronTab", fmt.Sprint("CronTab", i), "[ct]", fmt.Sprint("[ct", i, "]")).Replace(crontabs)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		establish(b, h.Client("admin"), texts...)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count/1024, "KiB/definition")
		runtime.KeepAlive(texts)
		h.Stop()
	}
}
