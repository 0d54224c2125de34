package controller

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
	"github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1alpha1"
)

func claim(name string) *databasev1.PostgresCluster {
	return &databasev1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: databasev1.PostgresClusterSpec{Version: 17, Replicas: 3, Storage: resource.MustParse("10Gi"),
			Parameters: map[string]string{"max_connections": "200", "application_name": "the shop's"}},
	}
}

func children(name string) []client.Object {
	named := metav1.ObjectMeta{Namespace: "default", Name: name}
	return []client.Object{&corev1.Secret{ObjectMeta: named}, &corev1.ConfigMap{ObjectMeta: named}, &corev1.Service{ObjectMeta: named}, &appsv1.StatefulSet{ObjectMeta: named}}
}

// file files a claim and waits until everything is there that it asks for.
func file(t *testing.T, name string) *databasev1.PostgresCluster {
	t.Helper()
	c := claim(name)
	if err := api.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, child := range children(name) {
		eventually(t, func() error { return owned(t, child, c) })
	}
	return c
}

// list is the list of clusters.
func list(t *testing.T) (map[string]string, error) {
	var m corev1.ConfigMap
	err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: ListName}, &m)
	return m.Data, client.IgnoreNotFound(err)
}

// observed waits until the status describes the present claim.
func observed(t *testing.T, c *databasev1.PostgresCluster, status metav1.ConditionStatus) {
	t.Helper()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, databasev1.Ready)
		if c.Status.ObservedGeneration != c.Generation || ready == nil || ready.Status != status || ready.ObservedGeneration != c.Generation {
			return fmt.Errorf("generation %d, status %+v; want Ready=%s", c.Generation, c.Status, status)
		}
		return nil
	})
}

// ready plays the loop of StatefulSets, which envtest lacks.
func ready(t *testing.T, name string, replicas int32) {
	t.Helper()
	eventually(t, func() error {
		var set appsv1.StatefulSet
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &set); err != nil {
			return err
		}
		if *set.Spec.Replicas != replicas {
			return fmt.Errorf("the StatefulSet has %d replicas, want %d", *set.Spec.Replicas, replicas)
		}
		set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: replicas, ReadyReplicas: replicas}
		return api.Status().Update(t.Context(), &set)
	})
}

// TestLifeOfACluster: a claim gets its children, its status follows them and
// says which claim it describes, and changes of the claim reach them.
func TestLifeOfACluster(t *testing.T) {
	if loops {
		t.Skip("StatefulSets have a loop of their own here, and no nodes")
	}
	c := file(t, "life")
	observed(t, c, metav1.ConditionFalse)
	if !controllerutil.ContainsFinalizer(c, Finalizer) {
		t.Error("it has no finalizer")
	}
	var config corev1.ConfigMap
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), &config); err != nil {
		t.Fatal(err)
	}
	if want := "application_name = 'the shop''s'\nmax_connections = '200'\n"; config.Data["postgresql.conf"] != want {
		t.Errorf("the configuration is %q, want %q", config.Data["postgresql.conf"], want)
	}
	eventually(t, func() error {
		l, err := list(t)
		if err == nil && l["default.life"] != "life.default.svc:5432" {
			err = fmt.Errorf("the list is %v", l)
		}
		return err
	})
	ready(t, c.Name, 3)
	observed(t, c, metav1.ConditionTrue)

	// The scale subresource is what `kubectl scale` uses.
	was := c.Generation
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := api.SubResource("scale").Update(t.Context(), c, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	ready(t, c.Name, 5)
	observed(t, c, metav1.ConditionTrue)
	if c.Generation != was+1 || c.Status.ReadyReplicas != 5 {
		t.Errorf("generation %d after %d, %d ready", c.Generation, was, c.Status.ReadyReplicas)
	}

	// What somebody breaks is mended.
	var service corev1.Service
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), &service); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &service); err != nil {
		t.Fatal(err)
	}
	lost := service.UID
	eventually(t, func() error {
		if err := owned(t, &service, c); err != nil {
			return err
		}
		if service.UID == lost {
			return fmt.Errorf("the Service is still the old one")
		}
		return nil
	})

	if err := api.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return gone(t, c) })
	if l, err := list(t); err != nil || l["default.life"] != "" {
		t.Errorf("the list after the end: %v, %v", l, err)
	}
}

// TestRefused: the schema and its rules hold.
func TestRefused(t *testing.T) {
	c := claim("refused")
	if err := api.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		api.Delete(t.Context(), c)
	})
	for want, spoil := range map[string]func(*databasev1.PostgresCluster){
		"spec.replicas: Invalid value":                   func(c *databasev1.PostgresCluster) { c.Spec.Replicas = 10 },
		"a database cannot go back to an older version":  func(c *databasev1.PostgresCluster) { c.Spec.Version = 16 },
		"storage cannot shrink":                          func(c *databasev1.PostgresCluster) { c.Spec.Storage = resource.MustParse("9Gi") },
		"spec.version in body should be greater than or": func(c *databasev1.PostgresCluster) { c.Spec.Version = 9 },
	} {
		eventually(t, func() error {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}
			spoil(c)
			err := api.Update(t.Context(), c)
			if apierrors.IsConflict(err) {
				return err // the reconciler wrote in between
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			return nil
		})
	}
}

// TestOldVersion: who filed his claim as v1alpha1 is told in v1alpha1 how it
// fares.
func TestOldVersion(t *testing.T) {
	if loops {
		t.Skip("StatefulSets have a loop of their own here, and no nodes")
	}
	c := fileOld(t, "old")
	told := func(phase string, ready int32) {
		t.Helper()
		eventually(t, func() error {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}
			if s := c.Status; s.Phase != phase || s.ReadyInstances != ready || s.Endpoint != "old.default.svc:5432" {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		})
	}
	told(v1alpha1.Starting, 0)
	ready(t, c.Name, 3)
	told(v1alpha1.Running, 3)
	if err := api.Patch(t.Context(), c, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"instances":5}}`))); err != nil {
		t.Fatal(err)
	}
	ready(t, c.Name, 5)
	told(v1alpha1.Running, 5)
	if err := api.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return gone(t, c) })
}

// fileOld is file for a claim in v1alpha1.
func fileOld(t *testing.T, name string) *v1alpha1.PostgresCluster {
	t.Helper()
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1alpha1.PostgresClusterSpec{Instances: 3, StorageGiB: 10}}
	if err := api.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, child := range children(name) {
		eventually(t, func() error { return owned(t, child, c) })
	}
	return c
}

// TestEverythingIsCollected: with the loops, deleting the claim deletes all, in
// whatever version it was filed and is deleted.
func TestEverythingIsCollected(t *testing.T) {
	if !loops {
		t.Skip("nothing collects in a bare API server; see WITH_CONTROLLERS in the README")
	}
	for _, c := range []client.Object{file(t, "collected"), fileOld(t, "collected-old")} {
		if err := api.Delete(t.Context(), c, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
		for _, o := range append(children(c.GetName()), c) {
			eventually(t, func() error { return gone(t, o) })
		}
	}
}
