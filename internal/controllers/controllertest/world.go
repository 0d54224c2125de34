package controllertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// World is what a Case works on: a sound client, and verbs on it that end the
// test when they fail.
type World struct {
	TB     testing.TB
	Seed   uint64
	Rand   *rand.Rand
	Client client.Interface
	Faulty bool // this is the play with faults
	Copies int  // of the loops at once

	mu     sync.Mutex
	writes []client.Write // guarded by mu
}

// Writes are all writes that the loops under test asked for, of all lives.
func (w *World) Writes() []client.Write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]client.Write(nil), w.writes...)
}

// Done counts the writes of a verb on a resource that were carried out.
func (w *World) Done(verb string, res client.Resource) (n int) {
	for _, write := range w.Writes() {
		if write.Done && write.Verb == verb && write.Resource == res && write.Sub == "" {
			n++
		}
	}
	return n
}

// Create creates an object.
func (w *World) Create(res client.Resource, obj client.Object) client.Object {
	w.TB.Helper()
	got, err := w.Client.Create(context.Background(), res, obj)
	if err != nil {
		w.TB.Fatalf("create %s %s: %v", res.Resource, obj.GetName(), err)
	}
	return got
}

// Edit changes an object, or a subresource of it, against whatever else
// changes it. An object that is gone stays so.
func (w *World) Edit(res client.Resource, namespace, name string, edit func(client.Object), sub ...string) {
	w.TB.Helper()
	for {
		obj, err := w.Client.Get(context.Background(), res, namespace, name)
		if err == nil {
			obj = obj.DeepCopyObject().(client.Object)
			edit(obj)
			_, err = w.Client.Update(context.Background(), res, obj, sub...)
		}
		switch {
		case err == nil || apierrors.IsNotFound(err):
			return
		case !apierrors.IsConflict(err):
			w.TB.Fatalf("edit %s %s/%s: %v", res.Resource, namespace, name, err)
		}
	}
}

// Delete deletes an object, if it is there.
func (w *World) Delete(res client.Resource, namespace, name string, opts metav1.DeleteOptions) {
	w.TB.Helper()
	if err := w.Client.Delete(context.Background(), res, namespace, name, opts); err != nil && !apierrors.IsNotFound(err) {
		w.TB.Fatalf("delete %s %s/%s: %v", res.Resource, namespace, name, err)
	}
}

// Get reads an object, nil when it is not there.
func (w *World) Get(res client.Resource, namespace, name string) client.Object {
	w.TB.Helper()
	obj, err := w.Client.Get(context.Background(), res, namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		w.TB.Fatalf("get %s %s/%s: %v", res.Resource, namespace, name, err)
	}
	if err != nil {
		return nil
	}
	return obj
}

// List reads all objects of a resource, by namespace and name.
func (w *World) List(res client.Resource) []client.Object {
	w.TB.Helper()
	objs, _, err := w.Client.List(context.Background(), res, "", metav1.ListOptions{})
	if err != nil {
		w.TB.Fatalf("list %s: %v", res.Resource, err)
	}
	sort.Slice(objs, func(i, j int) bool {
		a, b := objs[i], objs[j]
		return a.GetNamespace()+"/"+a.GetName() < b.GetNamespace()+"/"+b.GetName()
	})
	return objs
}

// Lines writes down the objects of a resource, a line each as line has it, in
// the order of the lines; empty ones are left out.
func (w *World) Lines(res client.Resource, line func(client.Object) string) string {
	w.TB.Helper()
	var lines []string
	for _, obj := range w.List(res) {
		if l := line(obj); l != "" {
			lines = append(lines, l)
		}
	}
	sort.Strings(lines)
	return fmt.Sprintf("%s:\n  %s\n", res.Resource, strings.Join(lines, "\n  "))
}

// Rest lets time go by, up to d.
func (w *World) Rest(d time.Duration) { time.Sleep(time.Duration(w.Rand.Int64N(int64(d) + 1))) }
