package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// An owner is shown what it controls and what it may adopt, and of the rest no
// more than asks for the rarest of its labels.
func TestCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c, ctx := h.Client("tester"), context.Background()
		yes := true
		create := func(namespace, name, owner string, labels map[string]string) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
			if owner != "" {
				cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: "of-x", Controller: &yes}}
			}
			if _, err := c.Create(ctx, client.ConfigMaps, cm); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			create("default", fmt.Sprint("common-", i), "", map[string]string{"tier": "web"})
		}
		create("default", "stray", "", map[string]string{"tier": "web", "app": "a"})
		create("default", "half", "", map[string]string{"app": "a"})
		create("default", "bare", "", nil)
		create("default", "controlled", "owner", map[string]string{"tier": "web", "app": "a"})
		create("kube-system", "elsewhere", "", map[string]string{"tier": "web", "app": "a"})
		view := c.View(client.ConfigMaps, client.ViewOptions{})
		client.IndexByController(view)
		synctest.Wait()

		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner", UID: "of-x"}}
		for _, test := range []struct {
			selector *metav1.LabelSelector
			want     []string
		}{
			{&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web", "app": "a"}}, []string{"controlled", "half", "stray"}},
			{&metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}, []string{"controlled"}},
			{&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}},
				[]string{"bare", "common-0", "common-1", "common-2", "common-3", "common-4", "controlled", "half", "stray"}},
			{nil, []string{"bare", "common-0", "common-1", "common-2", "common-3", "common-4", "controlled", "half", "stray"}},
		} {
			var got []string
			for _, obj := range controllers.Candidates[*corev1.ConfigMap](view, owner, test.selector) {
				got = append(got, obj.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("%v: %v, want %v", test.selector, got, test.want)
			}
		}
	})
}

// passing is a view in which something happens before the n-th read of an
// index, counted from 0.
type passing struct {
	client.View
	n      int
	happen func()
}

func (v *passing) ByIndex(name, value string) []client.Object {
	if v.n == 0 {
		v.happen()
	}
	v.n--
	return v.View.ByIndex(name, value)
}

// What is adopted, or let go, while its owner looks is seen once, whenever that
// happens.
func TestCandidatesAmidChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		c, ctx := h.Client("tester"), context.Background()
		view := c.View(client.ConfigMaps, client.ViewOptions{})
		client.IndexByController(view)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner", UID: "of-x"}}
		refs := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "of-x", Controller: new(true)}}
		for n := range 4 {
			for from, to := range map[string][]metav1.OwnerReference{"free": refs, "owned": nil} {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(from, n), Labels: map[string]string{"app": "a"}}}
				if to == nil {
					cm.OwnerReferences = refs
				}
				cm, err := client.Create(ctx, c, client.ConfigMaps, cm)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // The view hears of a write after the writer does.
				v := &passing{View: view, n: n, happen: func() {
					changed := cm.DeepCopy()
					changed.OwnerReferences = to
					if _, err := c.Update(ctx, client.ConfigMaps, changed); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}}
				seen := 0
				for _, obj := range controllers.Candidates[*corev1.ConfigMap](v, owner, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}) {
					if obj.UID == cm.UID {
						seen++
					}
				}
				if seen != 1 {
					t.Errorf("what was %s until read %d is seen %d times", from, n, seen)
				}
			}
		}
	})
}
