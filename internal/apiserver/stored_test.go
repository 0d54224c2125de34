package apiserver_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// lax are all kinds without their rules: whatever is written is stored. The
// harness has a loop that writes definitions of custom resources: they are left
// out.
func lax() []*kinds.Kind {
	list := slices.DeleteFunc(all.Kinds(), func(k *kinds.Kind) bool { return k.Resource.Group == "apiextensions.k8s.io" })
	for i, k := range list {
		free := *k
		free.Validate, free.ValidateUpdate, free.ValidateName = nil, nil, nil
		free.Subresources = map[string]*kinds.Subresource{}
		for name, sub := range k.Subresources {
			s := *sub
			s.ValidateUpdate = nil
			free.Subresources[name] = &s
		}
		list[i] = &free
	}
	return list
}

// careless fills objects as only a writer in this process can: times to the
// nanosecond in a zone of their own, lists and maps that are empty but not nil.
func careless(seed int64) *randfill.Filler {
	zone := time.FixedZone("here", 3600)
	moment := func(c randfill.Continue) time.Time {
		return time.Unix(int64(c.Intn(1<<31)), int64(c.Intn(1e9))).In(zone)
	}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprint(c.Intn(1<<20), "Ki"))
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.NewTime(moment(c)) },
		func(t *metav1.MicroTime, c randfill.Continue) { *t = metav1.NewMicroTime(moment(c)) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(m *metav1.ObjectMeta, _ randfill.Continue) {
			*m = metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}, Finalizers: []string{}, OwnerReferences: []metav1.OwnerReference{}}
		},
		func(r *runtime.RawExtension, _ randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
	)
}

// TestSharedIsStored: what readers in this process share is what reading the
// stored bytes gives, after a create, an update and a write of each view.
func TestSharedIsStored(t *testing.T) {
	h := apitest.New(t, apitest.Options{Kinds: lax()})
	c, ctx := h.Client("t"), context.Background()
	for _, k := range lax() {
		if k.StoragePrefix == "" || k.Resource.Resource == "customresourcedefinitions" { // those a loop writes at the same time
			continue
		}
		v := k.HubVersion()
		gvr := v.GroupVersion.WithResource(k.Resource.Resource)
		t.Run(gvr.String(), func(t *testing.T) {
			namespace := ""
			if k.Namespaced {
				namespace = "default"
			}
			check := func(how string) kinds.Object {
				t.Helper()
				return checkShared(t, h, c, k, client.Resource(gvr), namespace, how)
			}
			for seed := range int64(4) {
				random := careless(seed)
				fill := func() kinds.Object {
					obj := v.New()
					random.Fill(obj)
					obj.SetNamespace(namespace)
					obj.SetName("filled")
					return obj
				}
				if _, err := c.Create(ctx, gvr, fill()); err != nil {
					t.Fatal(err)
				}
				rv := check("create").GetResourceVersion()
				obj := fill()
				obj.SetResourceVersion(rv)
				if _, err := c.Update(ctx, gvr, obj); err != nil {
					t.Fatal(err)
				}
				check("update")
				for name, sub := range k.Subresources {
					if sub.PrepareUpdate == nil {
						continue
					}
					if _, err := c.Update(ctx, gvr, fill(), name); err != nil {
						t.Fatal(err)
					}
					check(name)
				}
				remove(t, c, gvr, namespace)
			}
		})
	}
}

// checkShared compares the shared object with the one that the stored bytes
// give, and returns it.
func checkShared(t *testing.T, h *apitest.Harness, c client.Interface, k *kinds.Kind, gvr client.Resource, namespace, how string) kinds.Object {
	t.Helper()
	ctx := context.Background()
	shared, err := c.Get(ctx, gvr, namespace, "filled")
	if err != nil {
		t.Fatal(err)
	}
	rec, _, err := h.Store.Get(ctx, k.Key(namespace, "filled"))
	if err != nil || rec == nil {
		t.Fatalf("read the record: %v, %v", rec, err)
	}
	rec.Decoded.Store(nil)
	stored, err := c.Get(ctx, gvr, namespace, "filled")
	if err != nil {
		t.Fatal(err)
	}
	if shared == stored {
		t.Fatal("the object was not decoded again")
	}
	if !reflect.DeepEqual(shared, stored) {
		t.Fatalf("after %s the shared object is not the stored one (-shared +stored):\n%s", how, cmp.Diff(shared, stored))
	}
	return stored
}

// remove takes the object away, whatever holds it.
func remove(t *testing.T, c client.Interface, gvr client.Resource, namespace string) {
	t.Helper()
	ctx, now := context.Background(), int64(0)
	if err := c.Delete(ctx, gvr, namespace, "filled", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	obj, err := c.Get(ctx, gvr, namespace, "filled")
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	free := obj.DeepCopyObject().(kinds.Object)
	free.SetFinalizers(nil)
	sub := []string{}
	if gvr.Resource == "namespaces" {
		sub = append(sub, "finalize")
		free.(interface{ Reset() }).Reset()
		free.SetName("filled")
	}
	if _, err := c.Update(ctx, gvr, free, sub...); err != nil {
		t.Fatal(err)
	}
}
