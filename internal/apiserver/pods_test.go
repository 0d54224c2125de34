package apiserver_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
)

func TestBinding(t *testing.T) {
	h := apitest.New(t, apitest.Options{HTTP: true})
	w := newWeb(t, h)
	c := h.Client("tester")
	create(t, c, pod("p", ""))
	const path = "/api/v1/namespaces/default/pods/p/binding"
	st := decode[metav1.Status](t, w.want(201, "POST", path, `{"metadata":{"name":"p","annotations":{"a":"b"}},"target":{"kind":"Node","name":"n1"}}`))
	if st.Status != "Success" {
		t.Errorf("got %+v", st)
	}
	got, err := c.Get(context.Background(), pods, "default", "p")
	if err != nil {
		t.Fatal(err)
	}
	p := got.(*corev1.Pod)
	if p.Spec.NodeName != "n1" || p.Annotations["a"] != "b" {
		t.Errorf("bound to %q with annotations %v", p.Spec.NodeName, p.Annotations)
	}
	found := false
	for _, cond := range p.Status.Conditions {
		found = found || cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionTrue
	}
	if !found {
		t.Errorf("no condition PodScheduled: %+v", p.Status.Conditions)
	}
	w.want(409, "POST", path, `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}`)
	w.want(409, "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}`)
	create(t, c, pod("q", ""))
	w.want(201, "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n2"}}`)
}

var pdbs = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")

func TestEviction(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	ctx := context.Background()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
	}
	made, err := c.Create(ctx, pdbs, pdb)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(n int32) {
		got, err := c.Get(ctx, pdbs, "default", "b")
		if err != nil {
			t.Fatal(err)
		}
		b := got.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: made.GetGeneration(), DisruptionsAllowed: n, CurrentHealthy: 2 + n, DesiredHealthy: 2, ExpectedPods: 3}
		if _, err := c.Update(ctx, pdbs, b, "status"); err != nil {
			t.Fatal(err)
		}
	}
	running := func(name string) {
		create(t, c, pod(name, ""))
		p := pod(name, "")
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if _, err := c.Update(ctx, pods, p, "status"); err != nil {
			t.Fatal(err)
		}
	}
	evict := func(name string) error {
		_, err := c.Create(ctx, pods, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}, "eviction")
		return err
	}
	gone := func(name string) bool {
		obj, err := c.Get(ctx, pods, "default", name)
		return apierrors.IsNotFound(err) || err == nil && obj.GetDeletionTimestamp() != nil
	}
	running("a")
	running("b")
	create(t, c, pod("pending", ""))
	allow(0)
	err = evict("a")
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("no disruption left: got %v", err)
	}
	if err := evict("pending"); err != nil || !gone("pending") {
		t.Errorf("a pending pod: %v", err)
	}
	allow(1)
	if err := evict("a"); err != nil || !gone("a") {
		t.Errorf("one disruption left: %v", err)
	}
	if err := evict("b"); !apierrors.IsTooManyRequests(err) || gone("b") {
		t.Errorf("the disruption is spent: got %v", err)
	}
	got, err := c.Get(ctx, pdbs, "default", "b")
	if err != nil {
		t.Fatal(err)
	}
	if st := got.(*policyv1.PodDisruptionBudget).Status; st.DisruptionsAllowed != 0 || len(st.DisruptedPods) != 1 {
		t.Errorf("status is %+v", st)
	}
	if err := evict("missing"); !apierrors.IsNotFound(err) {
		t.Errorf("a missing pod: got %v", err)
	}
}

// TestEvictionIsMarked: before an evicted pod goes, its status says why; who
// asks for nothing but a dry run, or for another pod or revision, changes
// nothing.
func TestEvictionIsMarked(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	ctx := context.Background()
	p := pod("a", "n")
	p.Finalizers = []string{"example.com/stay"} // it is to be seen
	create(t, c, p)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if _, err := c.Update(ctx, pods, p, "status"); err != nil {
		t.Fatal(err)
	}
	get := func() *corev1.Pod {
		got, err := c.Get(ctx, pods, "default", "a")
		if err != nil {
			t.Fatal(err)
		}
		return got.(*corev1.Pod)
	}
	before := get()
	evict := func(opts *metav1.DeleteOptions) error {
		_, err := c.Create(ctx, pods, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, DeleteOptions: opts}, "eviction")
		return err
	}
	if err := evict(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	other, uid := "1", types.UID("other")
	for _, want := range []*metav1.Preconditions{{UID: &uid}, {ResourceVersion: &other}} {
		if err := evict(&metav1.DeleteOptions{Preconditions: want}); !apierrors.IsConflict(err) {
			t.Errorf("%v: got %v, want a conflict", want, err)
		}
	}
	if got := get(); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("what evicts nothing leaves %v", got)
	}
	if err := evict(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &before.ResourceVersion}}); err != nil {
		t.Fatalf("at its revision: %v", err)
	}
	got := get()
	var marks []corev1.PodCondition
	for _, c := range got.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			marks = append(marks, c)
		}
	}
	if got.DeletionTimestamp == nil || len(marks) != 1 || marks[0].Status != corev1.ConditionTrue || marks[0].Reason != "EvictionByEvictionAPI" || len(got.Status.Conditions) != 2 {
		t.Errorf("deleted %v, conditions %+v", got.DeletionTimestamp, got.Status.Conditions)
	}
}
