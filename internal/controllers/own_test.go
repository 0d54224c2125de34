package controllers

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

func pod(name, owner string, matches bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "other"}}}
	if matches {
		p.Labels["app"] = "web"
	}
	if owner != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: &yes, Kind: "ReplicaSet", Name: owner}}
	}
	return p
}

func TestClaim(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "me"}}
	leaving := pod("leaving", "", true)
	leaving.DeletionTimestamp = &metav1.Time{}
	candidates := []*corev1.Pod{
		pod("z-stray", "", true), pod("a-stray", "", true), pod("foreign", "", false), leaving,
		pod("mine", "me", true), pod("strayed", "me", false), pod("theirs", "you", true),
	}
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	own := Claim(owner, selector, candidates)
	if len(own.Owned) != 1 || own.Owned[0].Name != "mine" {
		t.Errorf("owned are %v", own.Owned)
	}
	if own.Adopt == nil || (*own.Adopt).Name != "a-stray" {
		t.Errorf("adopts %v, want a-stray", own.Adopt)
	}
	if own.Release == nil || (*own.Release).Name != "strayed" {
		t.Errorf("releases %v, want strayed", own.Release)
	}
	owner.DeletionTimestamp = &metav1.Time{}
	if own = Claim(owner, selector, candidates); own.Adopt != nil || own.Release != nil || len(own.Owned) != 2 {
		t.Errorf("an owner on its way out claims %+v", own)
	}
}

func TestSelectsNothingWithoutSelector(t *testing.T) {
	p := pod("p", "", true)
	for _, s := range []*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"a b": "!"}}} {
		if Selects(s, p) {
			t.Errorf("%v selects", s)
		}
	}
	if !Selects(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, p) {
		t.Error("a selector that matches does not select")
	}
}

func TestControllerKey(t *testing.T) {
	if key, ok := ControllerKey(pod("p", "me", true), "ReplicaSet"); !ok || key.String() != "default/me" {
		t.Errorf("got %v, %t", key, ok)
	}
	for _, obj := range []client.Object{nil, pod("p", "", true)} {
		if _, ok := ControllerKey(obj, "ReplicaSet"); ok {
			t.Errorf("%v has a controller", obj)
		}
	}
	if _, ok := ControllerKey(pod("p", "me", true), "Job"); ok {
		t.Error("a ReplicaSet is taken for a Job")
	}
}

func TestWhatAnErrorTells(t *testing.T) {
	pods := client.Pods.GroupResource()
	rows := []struct {
		err               error
		refused, answered bool
	}{
		{apierrors.NewForbidden(pods, "p", errors.New("quota")), true, true},
		{apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "p", nil), true, true},
		{apierrors.NewConflict(pods, "p", errors.New("changed")), false, true},
		{apierrors.NewAlreadyExists(pods, "p"), false, true},
		{apierrors.NewTooManyRequests("busy", 1), false, true},
		{apierrors.NewTimeoutError("slow", 0), false, false},
		{apierrors.NewServerTimeout(pods, "create", 0), false, false},
		{apierrors.NewInternalError(errors.New("broken")), false, false},
		{errors.New("connection reset by peer"), false, false},
		{client.ErrCrashed, false, false},
	}
	for _, row := range rows {
		if got := Refused(row.err); got != row.refused {
			t.Errorf("Refused(%v) is %t", row.err, got)
		}
		if got := Answered(row.err); got != row.answered {
			t.Errorf("Answered(%v) is %t", row.err, got)
		}
	}
}
