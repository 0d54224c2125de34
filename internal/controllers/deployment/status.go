package deployment

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of conditions, as upstream spells them.
const (
	reasonCreated      = "NewReplicaSetCreated"
	reasonFound        = "FoundNewReplicaSet"
	reasonCreateFailed = "ReplicaSetCreateError"
	reasonUpdated      = "ReplicaSetUpdated"
	reasonDone         = "NewReplicaSetAvailable"
	reasonTimedOut     = "ProgressDeadlineExceeded"
	reasonPaused       = "DeploymentPaused"
	reasonResumed      = "DeploymentResumed"
	reasonAvailable    = "MinimumReplicasAvailable"
	reasonUnavailable  = "MinimumReplicasUnavailable"
)

// settlePause says in the Progressing condition that the rollout is paused or
// resumed; a resumed one has its whole deadline before it. A deadline already
// missed stays missed.
func (r *rollout) settlePause() step {
	c := condition(&r.d.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(r.d) || c != nil && c.Reason == reasonTimedOut {
		return step{}
	}
	told := c != nil && c.Reason == reasonPaused
	if told == r.d.Spec.Paused {
		return step{}
	}
	reason, text := reasonPaused, "Deployment is paused"
	if !r.d.Spec.Paused {
		reason, text = reasonResumed, "Deployment is resumed"
	}
	d := r.d.DeepCopy()
	set(&d.Status, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reason, text))
	return step{status: d, what: text}
}

// countOnly brings the counts up to date, without a word on progress.
func (r *rollout) countOnly() step {
	status := r.count()
	if s := r.write(&status); s.writes() {
		return s
	}
	if r.d.Spec.Paused && !complete(r.d, &status) {
		return step{wait: "the rollout is paused"}
	}
	return step{}
}

// report brings the whole status up to date; s is what the rollout waits for.
func (r *rollout) report(s step) step {
	status := r.count()
	old := condition(&r.d.Status, appsv1.DeploymentProgressing)
	done := complete(r.d, &status)
	subject := fmt.Sprintf("Deployment %q", r.d.Name)
	if r.newRS != nil {
		subject = fmt.Sprintf("ReplicaSet %q", r.newRS.Name)
	}
	// A rollout that has once come to its end stays so while only its own pods
	// come and go.
	settled := old != nil && old.Reason == reasonDone && status.Replicas == status.UpdatedReplicas
	switch {
	case !hasDeadline(r.d):
		unset(&status, appsv1.DeploymentProgressing)
	case settled:
	case done:
		set(&status, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonDone, subject+" has successfully progressed."))
	case r.newRS == nil && old != nil && old.Reason == reasonTimedOut && r.d.Generation > r.d.Status.ObservedGeneration:
		// What missed its deadline is the rollout before. Said of this claim,
		// a client that watches its rollout would give it up.
		set(&status, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, subject+" is progressing."))
	case progressed(&r.d.Status, &status):
		c := r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, subject+" is progressing.")
		if old != nil && old.Status == corev1.ConditionTrue {
			c.LastTransitionTime = old.LastTransitionTime
		}
		unset(&status, appsv1.DeploymentProgressing) // the time of update moves on with each step
		set(&status, c)
	case r.timedOut(old):
		set(&status, r.newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, reasonTimedOut, subject+" has timed out progressing."))
	}
	if failure := r.failure(); failure != nil {
		set(&status, *failure)
	} else {
		unset(&status, appsv1.DeploymentReplicaFailure)
	}
	if w := r.write(&status); w.writes() {
		return w
	}
	if done {
		return step{}
	}
	if hasDeadline(r.d) && old != nil && old.Reason != reasonTimedOut && old.Reason != reasonDone {
		s.after = max(time.Second, old.LastUpdateTime.Add(deadline(r.d)).Sub(r.now)+time.Second)
	}
	if s.wait == "" {
		s.on, s.wait = r.waiting(&status)
	}
	return s
}

// waiting says what a rollout without a next step of its own waits for.
func (r *rollout) waiting(status *appsv1.DeploymentStatus) (on, why string) {
	for _, rs := range r.all() {
		if rs.Generation > rs.Status.ObservedGeneration || rs.Status.AvailableReplicas != *rs.Spec.Replicas || rs.Status.Replicas != *rs.Spec.Replicas {
			return "ReplicaSet " + rs.Namespace + "/" + rs.Name,
				fmt.Sprintf("%d of %d pods are available", rs.Status.AvailableReplicas, *rs.Spec.Replicas)
		}
	}
	return "", fmt.Sprintf("%d of %d replicas are updated and available", status.UpdatedReplicas, *r.d.Spec.Replicas)
}

func (r *rollout) write(status *appsv1.DeploymentStatus) step {
	if equality.Semantic.DeepEqual(r.d.Status, *status) {
		return step{}
	}
	d := r.d.DeepCopy()
	d.Status = *status
	return step{status: d, what: "wrote the status"}
}

// count sums up what the ReplicaSets say.
func (r *rollout) count() appsv1.DeploymentStatus {
	status := appsv1.DeploymentStatus{
		ObservedGeneration: r.d.Generation,
		CollisionCount:     r.d.Status.CollisionCount,
		Conditions:         slices.Clone(r.d.Status.Conditions),
	}
	terminating, known := int32(0), true
	for _, rs := range r.all() {
		status.Replicas += rs.Status.Replicas
		status.ReadyReplicas += rs.Status.ReadyReplicas
		status.AvailableReplicas += rs.Status.AvailableReplicas
		if rs == r.newRS {
			status.UpdatedReplicas = rs.Status.Replicas
		}
		if rs.Status.TerminatingReplicas == nil {
			known = false
		} else {
			terminating += *rs.Status.TerminatingReplicas
		}
	}
	if known {
		status.TerminatingReplicas = &terminating
	}
	status.UnavailableReplicas = max(0, claimed(r.all())-status.AvailableReplicas)
	if status.AvailableReplicas >= *r.d.Spec.Replicas-maxUnavailable(r.d) {
		set(&status, r.newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable, "Deployment has minimum availability."))
	} else {
		set(&status, r.newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable, "Deployment does not have minimum availability."))
	}
	return status
}

// failure is the ReplicaFailure of a ReplicaSet, that of the new one first.
func (r *rollout) failure() *appsv1.DeploymentCondition {
	sets := r.old
	if r.newRS != nil {
		sets = append([]*appsv1.ReplicaSet{r.newRS}, r.old...)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
				}
			}
		}
	}
	return nil
}

// complete: all that is claimed is of the present template and available.
func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	want := *d.Spec.Replicas
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want && s.ObservedGeneration >= d.Generation
}

// progressed: more of the new, less of the old, or more that works.
func progressed(old, new *appsv1.DeploymentStatus) bool {
	return new.UpdatedReplicas > old.UpdatedReplicas ||
		new.Replicas-new.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		new.ReadyReplicas > old.ReadyReplicas ||
		new.AvailableReplicas > old.AvailableReplicas
}

// timedOut tells whether the rollout that c speaks of has missed its
// deadline. One that came to its end has none any more.
func (r *rollout) timedOut(c *appsv1.DeploymentCondition) bool {
	switch {
	case c == nil || c.Reason == reasonDone:
		return false
	case c.Reason == reasonTimedOut:
		return true
	}
	return c.LastUpdateTime.Add(deadline(r.d)).Before(r.now)
}

// hasDeadline: the largest number stands for none, as upstream has it.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != 1<<31-1
}

func deadline(d *appsv1.Deployment) time.Duration {
	return time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second
}

func (w *world) newCondition(t appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, text string) appsv1.DeploymentCondition {
	now := metav1.NewTime(w.now).Rfc3339Copy()
	return appsv1.DeploymentCondition{Type: t, Status: status, Reason: reason, Message: text, LastUpdateTime: now, LastTransitionTime: now}
}

func condition(s *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// set puts a condition in the place of the one of its type. One of the same
// status and reason stays as it is; one of the same status keeps its time of
// transition.
func set(s *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	had := condition(s, c.Type)
	switch {
	case had == nil:
		s.Conditions = append(s.Conditions, c)
	case had.Status == c.Status && had.Reason == c.Reason:
	default:
		if had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
		*had = c
	}
}

func unset(s *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}
