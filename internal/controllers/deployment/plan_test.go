package deployment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sim is a world of one Deployment in which each step of plan is carried out,
// and a naive ReplicaSet loop makes pods that become available when the test
// says so.
type sim struct {
	t    *testing.T
	d    *appsv1.Deployment
	sets map[string]*appsv1.ReplicaSet
	// broken templates never become available.
	broken map[string]bool
	now    time.Time
	uid    int
	events []string
	writes int
}

func newSim(t *testing.T, replicas int32) *sim {
	one, limit, deadline := intstr.FromString("25%"), int32(10), int32(600)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &sim{
		t: t, now: now, sets: map[string]*appsv1.ReplicaSet{}, broken: map[string]bool{},
		d: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "d", Generation: 1, CreationTimestamp: metav1.NewTime(now)},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, RevisionHistoryLimit: &limit, ProgressDeadlineSeconds: &deadline,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Strategy: appsv1.DeploymentStrategy{
					Type:          appsv1.RollingUpdateDeploymentStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &one},
				},
				Template: template("v1"),
			},
		},
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func (s *sim) edit(f func(d *appsv1.Deployment)) {
	d := s.d.DeepCopy()
	f(d)
	d.Generation++
	s.d = d
}

func (s *sim) image(image string) {
	s.edit(func(d *appsv1.Deployment) { d.Spec.Template = template(image) })
}

func (s *sim) plan() step {
	var sets []*appsv1.ReplicaSet
	for _, rs := range s.sets {
		sets = append(sets, rs)
	}
	return plan(world{d: s.d, sets: sets, now: s.now, pods: func(uid types.UID) bool {
		for _, rs := range s.sets {
			if rs.UID == uid {
				return rs.Status.Replicas > 0 || *rs.Status.TerminatingReplicas > 0
			}
		}
		return false
	}})
}

// step takes one step and tells whether it wrote.
func (s *sim) step() bool {
	st := s.plan()
	switch {
	case st.create != nil:
		rs := st.create.DeepCopy()
		s.uid++
		zero := int32(0)
		rs.UID, rs.Generation, rs.CreationTimestamp = types.UID(fmt.Sprint(s.uid)), 1, metav1.NewTime(s.now)
		rs.Status.TerminatingReplicas = &zero
		if s.sets[rs.Name] != nil {
			s.t.Fatalf("ReplicaSet %s is created twice", rs.Name)
		}
		s.sets[rs.Name] = rs
	case st.update != nil:
		rs := st.update.DeepCopy()
		rs.Generation++
		s.sets[rs.Name] = rs
	case st.remove != nil:
		delete(s.sets, st.remove.Name)
	case st.status != nil:
		d := s.d.DeepCopy()
		d.Status, d.Annotations = st.status.Status, st.status.Annotations
		s.d = d
	default:
		return false
	}
	if st.event != "" {
		s.events = append(s.events, st.event)
	}
	s.writes++
	return true
}

// follow lets the ReplicaSet loop do all it has to for one ReplicaSet.
func (s *sim) follow(name string) {
	rs := s.sets[name].DeepCopy()
	want := *rs.Spec.Replicas
	st := &rs.Status
	st.ObservedGeneration = rs.Generation
	st.Replicas = want
	st.AvailableReplicas = min(st.AvailableReplicas, want)
	st.ReadyReplicas = min(st.ReadyReplicas, want)
	s.sets[name] = rs
}

// ripen lets up to n pods of a ReplicaSet become available.
func (s *sim) ripen(name string, n int32) {
	rs := s.sets[name].DeepCopy()
	if s.broken[rs.Spec.Template.Spec.Containers[0].Image] {
		return
	}
	rs.Status.AvailableReplicas = min(rs.Status.AvailableReplicas+n, rs.Status.Replicas)
	rs.Status.ReadyReplicas = rs.Status.AvailableReplicas
	s.sets[name] = rs
}

func (s *sim) names() []string {
	var names []string
	for name := range s.sets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settle turns everything until nothing changes.
func (s *sim) settle() {
	s.t.Helper()
	for range 10_000 {
		s.check()
		wrote := s.step()
		before := fmt.Sprint(s.statuses())
		for _, name := range s.names() {
			s.follow(name)
			s.ripen(name, 1000)
		}
		if !wrote && before == fmt.Sprint(s.statuses()) {
			return
		}
	}
	s.t.Fatalf("does not settle; next would be %+v", s.plan())
}

func (s *sim) statuses() []any {
	var all []any
	for _, name := range s.names() {
		st := s.sets[name].Status
		all = append(all, st.Replicas, st.AvailableReplicas, st.ObservedGeneration)
	}
	return all
}

// check fails when there are more pods than maxSurge allows.
func (s *sim) check() {
	s.t.Helper()
	var claimed int32
	for _, rs := range s.sets {
		claimed += *rs.Spec.Replicas
	}
	if surge := maxSurge(s.d); len(s.sets) > 1 && claimed > *s.d.Spec.Replicas+surge && !s.shrinking() {
		s.t.Fatalf("%d pods are claimed, of %d and %d surge", claimed, *s.d.Spec.Replicas, surge)
	}
}

func (s *sim) shrinking() bool {
	r := sortOut(world{d: s.d, sets: s.all()})
	return r.isScaling()
}

func (s *sim) all() (sets []*appsv1.ReplicaSet) {
	for _, name := range s.names() {
		sets = append(sets, s.sets[name])
	}
	return sets
}

func (s *sim) of(image string) *appsv1.ReplicaSet {
	for _, rs := range s.sets {
		if rs.Spec.Template.Spec.Containers[0].Image == image {
			return rs
		}
	}
	return nil
}

func (s *sim) progressing() string {
	c := condition(&s.d.Status, appsv1.DeploymentProgressing)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func (s *sim) wantProgressing(want string) {
	s.t.Helper()
	if got := s.progressing(); got != want {
		s.t.Fatalf("Progressing is %q, want %q", got, want)
	}
}

func TestFirstRollout(t *testing.T) {
	s := newSim(t, 3)
	s.settle()
	s.wantProgressing("True NewReplicaSetAvailable")
	rs := s.of("v1")
	if *rs.Spec.Replicas != 3 || rs.Annotations[revisionAnnotation] != "1" || rs.Annotations[desiredAnnotation] != "3" || rs.Annotations[maxAnnotation] != "4" {
		t.Errorf("ReplicaSet is of size %d with %v", *rs.Spec.Replicas, rs.Annotations)
	}
	if s.d.Annotations[revisionAnnotation] != "1" || s.d.Status.ObservedGeneration != 1 || s.d.Status.AvailableReplicas != 3 {
		t.Errorf("Deployment has %v and %+v", s.d.Annotations, s.d.Status)
	}
	if want := []string{"Scaled up replica set " + rs.Name + " from 0 to 3"}; !slices.Equal(s.events, want) {
		t.Errorf("events are %q, want %q", s.events, want)
	}
	hash := rs.Labels[templateHash]
	if rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels[templateHash] != hash || rs.Spec.Template.Labels[templateHash] != hash {
		t.Errorf("hash %q is not in %s, %v and %v alike", hash, rs.Name, rs.Spec.Selector, rs.Spec.Template.Labels)
	}
	writes := s.writes
	s.settle()
	if s.writes != writes {
		t.Errorf("a quiet Deployment wrote %d times", s.writes-writes)
	}
}

func TestRollbackTakesTheNextRevision(t *testing.T) {
	s := newSim(t, 3)
	s.settle()
	s.image("v2")
	s.settle()
	s.image("v1")
	s.settle()
	rs := s.of("v1")
	if rs.Annotations[revisionAnnotation] != "3" || rs.Annotations[historyAnnotation] != "1" || *rs.Spec.Replicas != 3 {
		t.Errorf("ReplicaSet of v1 is of size %d with %v", *rs.Spec.Replicas, rs.Annotations)
	}
	if got := s.d.Annotations[revisionAnnotation]; got != "3" {
		t.Errorf("Deployment has revision %s, want 3", got)
	}
	if len(s.sets) != 2 || *s.of("v2").Spec.Replicas != 0 {
		t.Errorf("there are %d ReplicaSets", len(s.sets))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := newSim(t, 1)
	limit := int32(2)
	s.d.Spec.RevisionHistoryLimit = &limit
	for i := range 6 {
		s.image(fmt.Sprintf("v%d", i))
		s.settle()
	}
	if len(s.sets) != 3 || s.of("v3") == nil || s.of("v4") == nil || s.of("v5") == nil {
		t.Errorf("left are %v", s.names())
	}
}

func TestDeadline(t *testing.T) {
	s := newSim(t, 3)
	s.settle()
	// Long after the end of a rollout, a new one has its whole deadline.
	s.now = s.now.Add(24 * time.Hour)
	s.broken["v2"] = true
	s.image("v2")
	s.settle()
	if got := s.progressing(); got != "True ReplicaSetUpdated" && got != "True NewReplicaSetCreated" {
		t.Errorf("Progressing is %q amid a rollout", got)
	}
	if st := s.plan(); st.after <= 0 || st.after > 601*time.Second || st.wait == "" {
		t.Errorf("it waits %v for %q", st.after, st.wait)
	}
	s.now = s.now.Add(601 * time.Second)
	s.settle()
	s.wantProgressing("False ProgressDeadlineExceeded")
	// Going back is a rollout of its own.
	s.image("v1")
	s.settle()
	s.wantProgressing("True NewReplicaSetAvailable")
}

// A new image right after a rollout that was complete long ago has its whole
// deadline: at no step is it told to have missed one.
func TestNewImageLongAfterARollout(t *testing.T) {
	for _, strategy := range []appsv1.DeploymentStrategyType{appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprint(strategy, ", broken ", broken), func(t *testing.T) {
				s := newSim(t, 3)
				if s.d.Spec.Strategy.Type = strategy; strategy == appsv1.RecreateDeploymentStrategyType {
					s.d.Spec.Strategy.RollingUpdate = nil
				}
				s.settle()
				s.wantProgressing("True NewReplicaSetAvailable")
				s.now = s.now.Add(24 * time.Hour)
				s.broken["v2"] = broken
				s.image("v2")
				for range 100 {
					s.step()
					if got := s.progressing(); got == "False ProgressDeadlineExceeded" {
						t.Fatalf("it reads %q after %v", got, s.statuses())
					}
					for _, name := range s.names() { // a pod at a time
						s.follow(name)
						s.ripen(name, 1)
					}
				}
				if s.of("v2") == nil {
					t.Error("nothing was rolled out")
				}
			})
		}
	}
}

// The rollout after one that missed its deadline has a deadline of its own: no
// status that speaks of the new claim says that it is missed.
func TestRolloutAfterAMissedDeadline(t *testing.T) {
	for _, strategy := range []appsv1.DeploymentStrategyType{appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType} {
		t.Run(string(strategy), func(t *testing.T) {
			s := newSim(t, 3)
			if s.d.Spec.Strategy.Type = strategy; strategy == appsv1.RecreateDeploymentStrategyType {
				s.d.Spec.Strategy.RollingUpdate = nil
			}
			s.settle()
			s.broken["v2"] = true
			s.image("v2")
			s.settle()
			s.now = s.now.Add(601 * time.Second)
			s.settle()
			s.wantProgressing("False ProgressDeadlineExceeded")
			s.image("v3")
			for s.step() { // while the old pods are still there
				if got := s.progressing(); s.d.Status.ObservedGeneration == s.d.Generation && got == "False ProgressDeadlineExceeded" {
					t.Fatalf("of the new claim it reads %q", got)
				}
			}
			if s.d.Status.ObservedGeneration != s.d.Generation {
				t.Error("the claim is not observed")
			}
			s.settle()
			s.wantProgressing("True NewReplicaSetAvailable")
		})
	}
}

func TestPauseLongerThanTheDeadline(t *testing.T) {
	s := newSim(t, 3)
	s.settle()
	s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = true })
	s.image("v2")
	s.settle()
	s.wantProgressing("Unknown DeploymentPaused")
	if len(s.sets) != 1 {
		t.Errorf("a paused Deployment rolled out: %v", s.names())
	}
	s.now = s.now.Add(24 * time.Hour)
	s.settle()
	s.wantProgressing("Unknown DeploymentPaused")
	s.broken["v2"] = true
	s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	s.settle()
	if got := s.progressing(); got == "False ProgressDeadlineExceeded" {
		t.Errorf("resumed, it reads %q at once", got)
	}
}

func TestScalePaused(t *testing.T) {
	s := newSim(t, 3)
	s.settle()
	s.edit(func(d *appsv1.Deployment) { d.Spec.Paused = true; *d.Spec.Replicas = 5 })
	s.settle()
	if n := *s.of("v1").Spec.Replicas; n != 5 || s.d.Status.AvailableReplicas != 5 {
		t.Errorf("the ReplicaSet has size %d, want 5", n)
	}
}

func TestRecreate(t *testing.T) {
	s := newSim(t, 3)
	s.d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	s.settle()
	s.image("v2")
	for s.step() {
	}
	if s.of("v2") != nil {
		t.Fatal("the new ReplicaSet is there before the old pods are gone")
	}
	// The old pods are on their way out, and not counted.
	old := s.of("v1").DeepCopy()
	three := int32(3)
	old.Status = appsv1.ReplicaSetStatus{ObservedGeneration: old.Generation, TerminatingReplicas: &three}
	s.sets[old.Name] = old
	for s.step() {
	}
	if s.of("v2") != nil {
		t.Fatal("the new ReplicaSet is there while old pods terminate")
	}
	zero := int32(0)
	old = old.DeepCopy()
	old.Status.TerminatingReplicas = &zero
	s.sets[old.Name] = old
	s.settle()
	if *s.of("v2").Spec.Replicas != 3 || s.d.Status.AvailableReplicas != 3 {
		t.Errorf("the new ReplicaSet has size %d", *s.of("v2").Spec.Replicas)
	}
}

// A rollout to what does not work goes on when a working template comes: the
// broken pods go first.
func TestBrokenGoFirst(t *testing.T) {
	s := newSim(t, 4)
	s.settle()
	s.broken["bad"] = true
	s.image("bad")
	s.settle()
	if n := *s.of("v1").Spec.Replicas; n != 3 {
		t.Fatalf("a broken rollout left %d of the old, want 3", n)
	}
	s.image("v3")
	s.settle()
	if *s.of("bad").Spec.Replicas != 0 || *s.of("v1").Spec.Replicas != 0 || *s.of("v3").Spec.Replicas != 4 {
		t.Errorf("it ends with %d, %d and %d", *s.of("bad").Spec.Replicas, *s.of("v1").Spec.Replicas, *s.of("v3").Spec.Replicas)
	}
}

// Upstream's example: 10 replicas with 3 surge and 2 unavailable stuck amid a
// rollout, 8 old and 5 new, scaled to 15: 3 more for the larger, 2 for the
// smaller.
func TestProportionalScaling(t *testing.T) {
	s := newSim(t, 10)
	surge, unavailable := intstr.FromInt32(3), intstr.FromInt32(2)
	s.d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
	s.settle()
	s.broken["bad"] = true
	s.image("bad")
	s.settle()
	if *s.of("v1").Spec.Replicas != 8 || *s.of("bad").Spec.Replicas != 5 {
		t.Fatalf("stuck at %d and %d, want 8 and 5", *s.of("v1").Spec.Replicas, *s.of("bad").Spec.Replicas)
	}
	s.edit(func(d *appsv1.Deployment) { *d.Spec.Replicas = 15 })
	s.settle()
	if *s.of("v1").Spec.Replicas != 11 || *s.of("bad").Spec.Replicas != 7 {
		t.Errorf("scaled to %d and %d, want 11 and 7", *s.of("v1").Spec.Replicas, *s.of("bad").Spec.Replicas)
	}
}

// Whatever happens in between and however slowly the ReplicaSets follow, what
// is available never falls below what maxUnavailable leaves, and the end is
// the claim.
func TestRandomRollouts(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := newSim(t, 1+rnd.Int32N(12))
		surge, unavailable := intstr.FromInt32(rnd.Int32N(4)), intstr.FromInt32(rnd.Int32N(4))
		s.d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
		s.settle()
		image := 1
		for range 3 {
			image++
			s.image(fmt.Sprintf("v%d", image))
			for range 1 + rnd.IntN(60) {
				switch names := s.names(); rnd.IntN(3) {
				case 0:
					s.step()
				case 1:
					s.follow(names[rnd.IntN(len(names))])
				case 2:
					s.ripen(names[rnd.IntN(len(names))], rnd.Int32N(3))
				}
				s.check()
				var available int32
				for _, rs := range s.sets { // what the ReplicaSet loop would leave
					available += min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
				}
				if least := *s.d.Spec.Replicas - maxUnavailable(s.d); available < least {
					t.Fatalf("seed %d: %d are available, %d must be", seed, available, least)
				}
			}
		}
		s.settle()
		if !complete(s.d, &s.d.Status) {
			t.Fatalf("seed %d: ends incomplete: %+v", seed, s.d.Status)
		}
	}
}

func TestRemember(t *testing.T) {
	if got := remember("", "1"); got != "1" {
		t.Errorf("got %q", got)
	}
	if got := remember("1,2", "5"); got != "1,2,5" {
		t.Errorf("got %q", got)
	}
	long := ""
	for i := range 2000 {
		long = remember(long, fmt.Sprint(i))
	}
	if len(long) > historyLimit || long[len(long)-5:] != ",1999" {
		t.Errorf("%d bytes end in %q", len(long), long[len(long)-5:])
	}
}

func TestHashFollowsTemplateAndCollisions(t *testing.T) {
	a, b := template("v1"), template("v2")
	one := int32(1)
	seen := map[string]bool{Hash(&a, nil): true, Hash(&b, nil): true, Hash(&a, &one): true}
	if len(seen) != 3 {
		t.Errorf("hashes are not distinct: %v", seen)
	}
	if again := template("v1"); Hash(&again, nil) != Hash(&a, nil) {
		t.Error("equal templates have different hashes")
	}
}
