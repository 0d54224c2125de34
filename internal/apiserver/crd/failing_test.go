package crd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
)

// breakable is a webhook that works until it is told not to.
type breakable struct {
	*httptest.Server
	broken atomic.Bool
	into   atomic.Value // a version: only what is converted into it fails
}

func newBreakable(t *testing.T) *breakable {
	b := &breakable{}
	works := renames(t)
	t.Cleanup(works.Close)
	b.into.Store("")
	b.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if b.broken.Load() && strings.Contains(string(body), `"desiredAPIVersion":"example.com/`+b.into.Load().(string)) {
			http.Error(rw, "the hook is broken", http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		works.Config.Handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// wire asks h over HTTP and returns the answer, which the test closes.
func wire(t *testing.T, h *apitest.Harness, method, path, accept, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, h.HTTP.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	resp, err := h.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// eventsOf reads a watch to its end, as "TYPE KIND code reason".
func eventsOf(t *testing.T, body io.ReadCloser, inCBOR bool) (out []string, last metav1.Status) {
	t.Helper()
	var next func() ([]byte, error)
	lines := bufio.NewReader(body)
	next = func() ([]byte, error) { return lines.ReadBytes('\n') }
	if inCBOR {
		frames, buf := cbor.NewFramer().NewFrameReader(body), make([]byte, 1<<20)
		next = func() ([]byte, error) {
			n, err := frames.Read(buf)
			if err != nil {
				return nil, err
			}
			var ev any
			if err := direct.Unmarshal(buf[:n], &ev); err != nil {
				return nil, err
			}
			return json.Marshal(ev)
		}
	}
	for {
		data, err := next()
		if err == io.EOF {
			return out, last
		}
		var ev struct {
			Type   string
			Object json.RawMessage
		}
		if err == nil {
			err = json.Unmarshal(data, &ev)
		}
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if ev.Type != "ERROR" {
			out = append(out, ev.Type)
			continue
		}
		if err := json.Unmarshal(ev.Object, &last); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(ev.Type, " ", last.Kind, " ", last.Code, " ", last.Reason))
	}
}

// A watch that cannot go on because an object cannot be converted says so, in
// whatever form it is read and wherever it meets the object, and ends.
func TestWatchSaysThatConversionFailed(t *testing.T) {
	hook := newBreakable(t)
	h := apitest.New(t, apitest.Options{HTTP: true})
	c, ctx := h.Client("admin"), t.Context()
	defineBy(t, c, hook.Server)
	first, err := c.Create(ctx, boxes1, object(t, aBox))
	if err != nil {
		t.Fatal(err)
	}
	revision, size := first.GetResourceVersion(), 3
	write := func() {
		t.Helper()
		size++
		if _, err := c.Patch(ctx, boxes1, "", "one", "application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size)); err != nil {
			t.Fatal(err)
		}
	}
	write() // so that there is something after that revision
	for _, form := range []struct{ name, accept string }{
		{"objects", "application/json"},
		{"metadata", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
		{"tables", "application/json;as=Table;g=meta.k8s.io;v=v1"},
		{"cbor", "application/cbor-seq"},
	} {
		for _, at := range []struct {
			name, query string
			works       bool // when the watch begins
			want        []string
		}{
			{"what is there", "", false, []string{"ERROR Status 500 InternalError"}},
			{"what is streamed in place of a list", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", false, []string{"ERROR Status 500 InternalError"}},
			{"what was since", "&resourceVersion=" + revision, false, []string{"ERROR Status 500 InternalError"}},
			{"what comes", "", true, []string{"ADDED", "ERROR Status 500 InternalError"}},
			{"what comes to be selected", "&labelSelector=!gone", true, []string{"ADDED", "ERROR Status 500 InternalError"}},
		} {
			t.Run(form.name+"/"+at.name, func(t *testing.T) {
				hook.broken.Store(!at.works)
				defer hook.broken.Store(false)
				hook.into.Store("v2")
				resp := wire(t, h, http.MethodGet, "/apis/example.com/v2/boxes?watch=true&timeoutSeconds=600"+at.query, form.accept, "")
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("answered with %s", resp.Status)
				}
				body := resp.Body
				if at.works { // it fails once the watch has begun, and shown what is there
					begun := make([]byte, 1)
					if _, err := io.ReadFull(body, begun); err != nil {
						t.Fatal(err)
					}
					body = struct {
						io.Reader
						io.Closer
					}{io.MultiReader(bytes.NewReader(begun), body), body}
					hook.broken.Store(true)
					write()
				}
				got, status := eventsOf(t, body, form.name == "cbor")
				if diff := cmp.Diff(at.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if !strings.HasPrefix(status.Message, "Internal error occurred: conversion webhook for example.com/v1, Kind=Box failed: ") || status.Status != metav1.StatusFailure {
					t.Errorf("it says %q", status.Message)
				}
			})
		}
	}
	t.Run("in process", func(t *testing.T) {
		hook.broken.Store(true)
		defer hook.broken.Store(false)
		w, err := c.Watch(ctx, boxes2, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		ev := <-w.ResultChan()
		if status, ok := ev.Object.(*metav1.Status); ev.Type != watch.Error || !ok || status.Reason != metav1.StatusReasonInternalError {
			t.Errorf("got %v", ev)
		}
		if ev, more := <-w.ResultChan(); more {
			t.Errorf("it goes on with %v", ev)
		}
	})
}

// A scale that cannot be read or written back because the object cannot be
// converted is the server's failure, and says nothing against what was sent.
func TestScaleWhoseConversionFails(t *testing.T) {
	hook := newBreakable(t)
	h := apitest.New(t, apitest.Options{HTTP: true})
	c, ctx := h.Client("admin"), t.Context()
	defineBy(t, c, hook.Server, func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions[1].Subresources = d.Spec.Versions[0].Subresources
	})
	if _, err := c.Create(ctx, boxes1, object(t, aBox)); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/example.com/v2/boxes/one/scale"
	scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"one"},"spec":{"replicas":7}}`
	for _, into := range []string{"v1", "v2"} { // on the way back, on the way out
		hook.into.Store(into)
		for _, ask := range []struct{ method, body string }{{http.MethodGet, ""}, {http.MethodPut, scale}, {http.MethodPatch, `{"spec":{"replicas":7}}`}} {
			want := http.StatusInternalServerError
			if ask.method == http.MethodGet && into == "v1" {
				want = http.StatusOK
			}
			hook.broken.Store(true)
			resp := wire(t, h, ask.method, path, "application/json", ask.body)
			hook.broken.Store(false)
			var status struct{ Message string }
			if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != want || want != http.StatusOK && !strings.HasPrefix(status.Message, "conversion webhook for example.com/v") {
				t.Errorf("%s with no way into %s: %s, %q; want %d", ask.method, into, resp.Status, status.Message, want)
			}
		}
	}
	got, err := c.Get(ctx, boxes1, "", "one")
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(got.(*unstructured.Unstructured).Object, "spec", "replicas"); n != 2 {
		t.Errorf("what failed has scaled to %d", n)
	}
	if resp := wire(t, h, http.MethodPut, path, "application/json", scale); resp.StatusCode != http.StatusOK {
		t.Errorf("the hook works again: %s", resp.Status)
	}
}

// What a Scale may say of an object, and what an object must say to have one.
func TestScaleRefuses(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	c, ctx := h.Client("admin"), t.Context()
	if _, err := c.Create(ctx, crd.Definitions, definition(t, twoVersions)); err != nil {
		t.Fatal(err)
	}
	established(t, c)
	without := object(t, aBox)
	unstructured.RemoveNestedField(without.Object, "spec", "replicas")
	without.SetName("without")
	for _, u := range []*unstructured.Unstructured{object(t, aBox), without} {
		if _, err := c.Create(ctx, boxes1, u); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		method, name, body string
		code               int
		want               string
	}{
		{http.MethodPut, "one", `{"spec":{"replicas":-1}}`, 422, `Box.example.com "one" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer`},
		{http.MethodPatch, "one", `{"spec":{"replicas":-1}}`, 422, `Box.example.com "one" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer`},
		{http.MethodGet, "without", "", 500, `Internal error occurred: the spec replicas field ".spec.replicas" does not exist`},
		{http.MethodPatch, "without", `{"metadata":{}}`, 400, `the spec replicas field ".spec.replicas" cannot be empty`},
		{http.MethodPatch, "without", `{"spec":{"replicas":4}}`, 200, ""},
		{http.MethodGet, "without", "", 200, ""},
	} {
		body := test.body
		if test.method == http.MethodPut {
			body = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"` + test.name + `"},` + strings.TrimPrefix(body, "{")
		}
		resp := wire(t, h, test.method, "/apis/example.com/v1/boxes/"+test.name+"/scale", "application/json", body)
		var got struct {
			Message string
			Spec    autoscalingv1.ScaleSpec
		}
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != test.code || got.Message != test.want || test.code == 200 && got.Spec.Replicas != 4 {
			t.Errorf("%s %s %s: %d %q, scale %d; want %d %q", test.method, test.name, test.body, resp.StatusCode, got.Message, got.Spec.Replicas, test.code, test.want)
		}
	}
}
