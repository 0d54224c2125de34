package podbatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// failing answers writes with errors after they were, or were not, carried out.
type failing struct {
	client.Interface
	before, after error
}

func (f *failing) Create(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if f.before != nil {
		return nil, f.before
	}
	got, err := f.Interface.Create(ctx, res, obj, sub...)
	if f.after != nil {
		return nil, f.after
	}
	return got, err
}

func TestCreateAgain(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := &failing{Interface: h.Client("tester")}
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "default", UID: "owner"}}
	want := func(name string) *corev1.Pod {
		p := pod(name)
		p.UID, p.ResourceVersion, p.Spec.NodeName, p.Status = "", "", "", corev1.PodStatus{}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Pod"))}
		return p
	}
	w := Writer{Client: c, Events: client.NoEvents, Owner: owner}
	m := &Memory{}

	c.after = apierrors.NewTimeoutError("lost", 0)
	if got := w.Create(t.Context(), m, []*corev1.Pod{want("a"), want("b")}); got.Failure == nil || got.Done != 0 {
		t.Errorf("an answer was lost: %+v", got)
	}
	if b, err := c.Get(t.Context(), client.Pods, "default", "b"); err == nil {
		t.Errorf("after a failure one at a time is tried: %s was made", b.GetName())
	}
	c.before, c.after = apierrors.NewForbidden(client.Pods.GroupResource(), "a", errors.New("quota")), nil
	if got := w.Create(t.Context(), m, []*corev1.Pod{want("a")}); got.Failure == nil {
		t.Errorf("the server refused: %+v", got)
	}
	c.before = nil
	if got := w.Create(t.Context(), m, []*corev1.Pod{want("a"), want("b"), want("c")}); got.Failure != nil || got.Done != 3 || got.Revision == "" {
		t.Errorf("its own pod is not found again: %+v", got)
	}
	w.Owner = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
	if got := w.Create(t.Context(), m, []*corev1.Pod{want("a")}); !got.Strange || got.Failure != nil || got.Done != 0 {
		t.Errorf("another's pod has the name: %+v", got)
	}

	there, err := client.Get[*corev1.Pod](t.Context(), c, client.Pods, "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	// One that was made and has lost its owner before anybody saw it is no
	// stranger's: a Job made another beside it.
	orphan := there.DeepCopy()
	orphan.OwnerReferences = nil
	if there, err = client.Update(t.Context(), c, client.Pods, orphan); err != nil {
		t.Fatal(err)
	}
	if got := w.Create(t.Context(), m, []*corev1.Pod{want("a")}); got.Strange || got.Failure != nil || got.Done != 1 || got.Revision == "" {
		t.Errorf("an orphan has the name: %+v", got)
	}
	other := want("a")
	other.Labels = map[string]string{"of": "others"}
	if got := w.Create(t.Context(), m, []*corev1.Pod{other}); !got.Strange || got.Done != 0 {
		t.Errorf("an orphan that is not to be adopted has the name: %+v", got)
	}
	if got := w.Remove(t.Context(), m, []*corev1.Pod{there, pod("gone")}); got.Done != 2 || got.Failure != nil || !m.Doomed(there) {
		t.Errorf("deleted: %+v", got)
	}
	m.Forget(nil)
	if m.Doomed(there) || m.Asked(there) {
		t.Error("what is gone is remembered")
	}
}

func TestUnfinalize(t *testing.T) {
	h := apitest.New(t, apitest.Options{})
	c := h.Client("tester")
	p := pod("a")
	p.UID, p.Finalizers = "", []string{"example.com/one", "example.com/two"}
	p, err := client.Create(t.Context(), c, client.Pods, p)
	if err != nil {
		t.Fatal(err)
	}
	newer := p.DeepCopy()
	newer.Labels = map[string]string{"changed": "meanwhile"}
	if _, err := c.Update(t.Context(), client.Pods, newer); err != nil {
		t.Fatal(err)
	}
	got, err := unfinalize(t.Context(), c, p, "example.com/one")
	if err != nil || !slices.Equal(got.GetFinalizers(), []string{"example.com/two"}) || got.GetLabels()["changed"] == "" {
		t.Errorf("left is %v, %v", got, err)
	}
	p = got.(*corev1.Pod).DeepCopy()
	p.UID = "another"
	if got, err := unfinalize(t.Context(), c, p, "example.com/two"); err != nil || got != nil {
		t.Errorf("of another pod: %v, %v", got, err)
	}
	p.Name = "none"
	if got, err := unfinalize(t.Context(), c, p, "example.com/two"); err != nil || got != nil {
		t.Errorf("of no pod: %v, %v", got, err)
	}
}

// Each pod goes before the next.
func TestLeastWorth(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	order := []*corev1.Pod{
		pod("asked"),
		pod("unassigned", unready, func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		pod("pending", unready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("unready", unready),
		pod("cheap", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} }),
		pod("fresh", func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
		}),
		pod("restarted", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}} }),
		pod("young", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute)) }),
		pod("a"), pod("b"),
	}
	m := &Memory{doomed: map[types.UID]bool{"asked": false}}
	got := slices.Clone(order)
	slices.Reverse(got)
	m.LeastWorth(got, now)
	for i := range got {
		if got[i] != order[i] {
			t.Errorf("%d goes %s, want %s", i, got[i].Name, order[i].Name)
		}
	}
}

func TestNames(t *testing.T) {
	draw := func(uids ...types.UID) string {
		names := Seed([]string{"owner", "7"}, 0)
		for _, uid := range uids {
			names.Saw(uid)
		}
		return names.Next("web-")
	}
	if draw("a", "b") != draw("b", "a") {
		t.Error("the order in which pods are seen matters")
	}
	if draw("a") == draw("b") {
		t.Error("what is seen does not matter")
	}
	if name := Seed(nil).Next(strings.Repeat("x", 80)); len(name) != 63 {
		t.Errorf("a name has %d bytes", len(name))
	}
	if p := Prefix(strings.Repeat("x", 80), "-12-"); len(p) != longest || !strings.HasSuffix(p, "x-12-") {
		t.Errorf("prefix is %s", p)
	}
}

// The next pod of a place is named after the last that was seen there, whether
// that one is still there or not.
func TestPlaces(t *testing.T) {
	at := func(place string, age time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"place": place}
			p.CreationTimestamp = metav1.NewTime(now.Add(-age))
		}
	}
	var places Places[string]
	see := func(pods ...*corev1.Pod) {
		places.See(pods, func(p *corev1.Pod) (string, bool) { return p.Labels["place"], p.Labels["place"] != "" })
	}
	draw := func(place string, there ...*corev1.Pod) string {
		names := Seed([]string{"owner", place})
		places.Sway(names, place, there)
		return names.Next("web-")
	}
	first, other := draw("x"), draw("y")
	a, b := pod("a", at("x", time.Minute)), pod("b", at("x", time.Hour))
	see(a, pod("nowhere", at("", 0)))
	after := draw("x", a)
	see()
	if gone := draw("x"); gone == first || gone != after {
		t.Errorf("after a pod that is gone comes %s, while it was there %s, without it %s", gone, after, first)
	}
	if draw("y") != other {
		t.Error("a pod makes a difference to another place")
	}
	see(b) // older than the one before: it counts who is there
	see()
	last := draw("x")
	see(b, a)
	see()
	if last == after || draw("x") != after {
		t.Errorf("after b comes %s, after a and b %s, after a %s", last, draw("x"), after)
	}
	see(a, b)
	see()
	if draw("x") != after {
		t.Error("the order in which pods are seen matters")
	}
	places.Keep(func(place string) bool { return place == "y" })
	if places.Len() != 0 || draw("x") != first {
		t.Errorf("%d places are remembered", places.Len())
	}
}
