package statefulset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-project/setpoint/internal/controllers/revisions"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSet(replicas int32, edits ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "set", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", Template: template("v2"),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
		},
		Status: appsv1.StatefulSetStatus{CurrentRevision: "old", UpdateRevision: "new"},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}
func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
	}
}
func atMost(n int) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		v := intstr.FromInt(n)
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &v}
	}
}
func volume(deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: deleted, WhenScaled: scaled}
	}
}

// pod is one that is ready, of the new revision, changed by edits.
func pod(n int, edits ...func(*corev1.Pod)) *corev1.Pod {
	name := fmt.Sprintf("web-%d", n)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{
			appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: fmt.Sprint(n), appsv1.ControllerRevisionHashLabelKey: "new",
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
		}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func old(p *corev1.Pod)     { p.Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }
func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }
func nobody(p *corev1.Pod)  { delete(p.Labels, appsv1.PodIndexLabel) }

func revision(t *testing.T, name, image string) *appsv1.ControllerRevision {
	t.Helper()
	tmpl := template(image)
	r, err := revisions.New(newSet(1), kind, nil, &tmpl, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Name = name
	return r
}

func in(t *testing.T, s *appsv1.StatefulSet, pods ...*corev1.Pod) world {
	return world{
		set: s, pods: pods, now: now, update: revision(t, "new", "v2"), current: revision(t, "old", "v1"),
		claim: func(string) *corev1.PersistentVolumeClaim { return nil },
	}
}

func tell(s step) string {
	switch {
	case s.createClaim != nil:
		return "claim " + s.createClaim.Name
	case s.updateClaim != nil:
		line := "own " + s.updateClaim.Name
		for _, ref := range s.updateClaim.OwnerReferences {
			line += " by " + ref.Kind
		}
		return line
	case s.create != nil:
		return "create " + s.create.Name + " of " + s.create.Spec.Containers[0].Image
	case s.update != nil:
		return "mend " + s.update.Name
	case s.remove != nil:
		return "remove " + s.remove.Name
	case s.wait != "":
		return "wait for " + s.on
	}
	return "nothing"
}

func TestPlan(t *testing.T) {
	starts := func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }
	patient := func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 90 }
	gone := func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }
	rows := []struct {
		name  string
		world world
		want  string
	}{
		{"the first", in(t, newSet(3)), "create web-0 of v2"},
		{"the next waits", in(t, newSet(3), pod(0, unready)), "wait for Pod default/web-0"},
		{"with Parallel it does not", in(t, newSet(3, parallel), pod(0, unready)), "create web-1 of v2"},
		{"the next", in(t, newSet(3), pod(0)), "create web-1 of v2"},
		{"a gap", in(t, newSet(3), pod(0), pod(2)), "create web-1 of v2"},
		{"ordinals from 5 up", in(t, newSet(2, starts), pod(5)), "create web-6 of v2"},
		{"one below the first", in(t, newSet(1, starts), pod(5), pod(4)), "remove web-4"},
		{"all there", in(t, newSet(2), pod(0), pod(1)), "nothing"},
		{"not ready for long enough", in(t, newSet(2, patient), pod(0)), "wait for Pod default/web-0"},
		{"one that has ended", in(t, newSet(2), pod(0, failed), pod(1)), "remove web-0"},
		{"one on a silent node", in(t, newSet(2), pod(0, leaving), pod(1)), "wait for Pod default/web-0"},
		{"one that does not know who it is", in(t, newSet(1), pod(0, nobody)), "mend web-0"},
		{"fewer: the last goes", in(t, newSet(1), pod(0), pod(1), pod(2)), "remove web-2"},
		{"fewer: one after the other", in(t, newSet(1), pod(0), pod(1), pod(2, leaving)), "wait for Pod default/web-2"},
		{"fewer with Parallel", in(t, newSet(1, parallel), pod(0), pod(1), pod(2, leaving)), "remove web-1"},
		{"fewer, though one is not ready", in(t, newSet(1), pod(0), pod(1), pod(2, unready)), "remove web-2"},
		{"fewer, not as long as a lower one is not ready", in(t, newSet(1), pod(0), pod(1, unready), pod(2, unready)), "wait for Pod default/web-2"},
		{"an update from the top", in(t, newSet(3), pod(0, old), pod(1, old), pod(2, old)), "remove web-2"},
		{"an update goes on", in(t, newSet(3), pod(0, old), pod(1, old), pod(2)), "remove web-1"},
		{"an update waits", in(t, newSet(3), pod(0, old), pod(1, old), pod(2, unready)), "wait for Pod default/web-2"},
		{"OnDelete", in(t, newSet(2, onDelete), pod(0, old), pod(1, old)), "nothing"},
		{"a partition", in(t, newSet(3, partition(2)), pod(0, old), pod(1, old), pod(2)), "nothing"},
		{"below the partition the old comes back", in(t, newSet(3, partition(2)), pod(1, old), pod(2)), "create web-0 of v1"},
		{"above it the new", in(t, newSet(3, partition(1)), pod(0, old), pod(2)), "create web-1 of v2"},
		{"two may be unavailable", in(t, newSet(3, parallel, atMost(2)), pod(0, old), pod(1, old), pod(2, leaving)), "remove web-1"},
		{"not three", in(t, newSet(3, parallel, atMost(2)), pod(0, old), pod(1, leaving), pod(2, leaving)), "wait for Pod default/web-1"},
		{"a broken revision, ordered", in(t, newSet(3), pod(0, old), pod(1, old), pod(2, old, unready)), "wait for Pod default/web-2"},
		{"a broken revision, parallel", in(t, newSet(3, parallel), pod(0, old), pod(1, old), pod(2, old, unready)), "remove web-2"},
		{"all broken, parallel", in(t, newSet(2, parallel), pod(0, old, unready), pod(1, old, unready)), "remove web-1"},
		{"on its way out", in(t, newSet(3, gone)), "nothing"},
	}
	for _, row := range rows {
		if got := tell(plan(row.world)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestPodsHaveAnIdentity(t *testing.T) {
	s := newSet(1, volume(appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "other"}}
	w := in(t, s)
	p, err := w.newPod(0)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "web-0" || p.Spec.Hostname != "web-0" || p.Spec.Subdomain != "web" || p.Labels[appsv1.PodIndexLabel] != "0" ||
		p.Labels[appsv1.StatefulSetPodNameLabel] != "web-0" || revisionOf(p) != "new" {
		t.Errorf("pod is %+v", p)
	}
	if v := p.Spec.Volumes; len(v) != 2 || v[0].PersistentVolumeClaim == nil || v[0].PersistentVolumeClaim.ClaimName != "data-web-0" || v[1].Name != "other" {
		t.Errorf("volumes are %+v", v)
	}
	if len(s.Spec.Template.Labels) != 1 || s.Spec.Template.Spec.Hostname != "" {
		t.Error("the template was changed")
	}
	for name, want := range map[string]bool{"web-0": true, "web-12": true, "web-01": false, "web-": false, "web-x": false, "other-0": false, "web--1": false} {
		if _, ok := ordinal(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); ok != want {
			t.Errorf("%s is a place: %t", name, ok)
		}
	}
}

func TestClaims(t *testing.T) {
	keep, drop := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	there := func(refs ...metav1.OwnerReference) func(string) *corev1.PersistentVolumeClaim {
		return func(name string) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: refs}}
		}
	}
	set, gone := *metav1.NewControllerRef(newSet(1), kind), metav1.OwnerReference{Kind: "Pod", Name: "web-0", UID: "before"}
	rows := []struct {
		name  string
		set   *appsv1.StatefulSet
		claim func(string) *corev1.PersistentVolumeClaim
		pods  []*corev1.Pod
		want  string
	}{
		{"claims come first", newSet(1, volume(keep, keep)), nil, nil, "claim data-web-0"},
		{"then pods", newSet(1, volume(keep, keep)), there(), nil, "create web-0 of v2"},
		{"they stay", newSet(1, volume(keep, keep)), there(), []*corev1.Pod{pod(0)}, "nothing"},
		{"or go with the set", newSet(1, volume(drop, keep)), there(), []*corev1.Pod{pod(0)}, "own data-web-0 by StatefulSet"},
		{"the policy changes back", newSet(1, volume(keep, keep)), there(set), []*corev1.Pod{pod(0)}, "own data-web-0"},
		{"or with the pod that is taken away", newSet(0, volume(drop, drop)), there(set), []*corev1.Pod{pod(0)}, "own data-web-0 by Pod"},
		{"which is not when the set goes", newSet(0, volume(drop, keep)), there(set), []*corev1.Pod{pod(0)}, "remove web-0"},
		{"what goes with a pod before is waited for", newSet(1, volume(keep, drop)), there(gone), nil, "wait for PersistentVolumeClaim default/data-web-0"},
	}
	for _, row := range rows {
		w := in(t, row.set, row.pods...)
		if row.claim != nil {
			w.claim = row.claim
		}
		if got := tell(plan(w)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestStatus(t *testing.T) {
	s := plan(in(t, newSet(3, partition(1)), pod(0, old), pod(1), pod(2, unready), pod(3, leaving)))
	if st := s.status; st == nil || st.Replicas != 4 || st.ReadyReplicas != 3 || st.AvailableReplicas != 3 || st.CurrentReplicas != 1 || st.UpdatedReplicas != 2 ||
		st.CurrentRevision != "old" || st.UpdateRevision != "new" || st.ObservedGeneration != 1 {
		t.Errorf("status is %+v", st)
	}
	s = plan(in(t, newSet(2), pod(0), pod(1)))
	if st := s.status; st == nil || st.CurrentRevision != "new" || st.CurrentReplicas != 2 {
		t.Errorf("after the update the status is %+v", st)
	}
	done := newSet(2)
	done.Status = *s.status
	w := in(t, done, pod(0), pod(1))
	w.current = w.update
	if again := plan(w); again.status != nil {
		t.Errorf("the status is written again: %+v", again.status)
	}
	patient := newSet(1, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 90 })
	if s := plan(in(t, patient, pod(0))); s.status.AvailableReplicas != 0 || s.after != 30*time.Second {
		t.Errorf("%d are available, looks again after %v", s.status.AvailableReplicas, s.after)
	}
}
