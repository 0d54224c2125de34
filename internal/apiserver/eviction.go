package apiserver

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

var budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}

const violatesBudget = "Cannot evict pod as it would violate the pod's disruption budget."

// maxDisrupted bounds the pods whose eviction a budget waits for.
const maxDisrupted = 2000

// evict deletes a pod if its disruption budget has room (pods/eviction).
// https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
func (s *Server) evict(c *call, obj kinds.Object) (answer, error) {
	ev := obj.(*policyv1.Eviction)
	if ev.Name != c.name {
		return answer{}, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	admitted, done, err := s.admitPosted(c, ev)
	if err != nil {
		return answer{}, err
	}
	ev = admitted.(*policyv1.Eviction)
	a, err := s.evictAdmitted(c, ev)
	done(err)
	return a, err
}

func (s *Server) evictAdmitted(c *call, ev *policyv1.Eviction) (answer, error) {
	opts := ev.DeleteOptions
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if len(opts.DryRun) > 0 {
		c.dryRun = true
	} else if c.dryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	one := *c
	one.sub, one.admitted = "", true
	got, err := s.get(&one)
	if err != nil {
		return answer{}, err
	}
	pod := got.entry.obj.(*corev1.Pod)
	if !withoutBudget(pod) {
		budget, err := s.budgetOf(c, pod)
		if err != nil {
			return answer{}, err
		}
		if budget != nil && !mayGoUnhealthy(pod, budget) {
			if err := s.spend(c, budget.Name, pod.Name); err != nil {
				return answer{}, err
			}
		}
	}
	if opts.Preconditions == nil {
		opts.Preconditions = &metav1.Preconditions{}
	}
	if opts.Preconditions.UID == nil {
		opts.Preconditions.UID = &pod.UID
	}
	if err := s.markEvicted(c, pod, opts.Preconditions); err != nil {
		return answer{}, err
	}
	if _, err := s.delete(&one, opts); err != nil {
		return answer{}, err
	}
	return created(), nil
}

// markEvicted tells in the pod's status, before it is deleted, that it is
// disrupted: loops judge its end by that (a Job's pod failure policy, say). A
// revision that the client asked for becomes that of the mark.
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
func (s *Server) markEvicted(c *call, pod *corev1.Pod, want *metav1.Preconditions) error {
	if c.dryRun || pod.DeletionTimestamp != nil {
		return nil
	}
	pc := &call{ctx: c.ctx, user: c.user, sv: c.sv.resource.hub, verb: "update", sub: "status", namespace: c.namespace, name: pod.Name}
	a, err := s.change(pc, write{trusted: true, make: func(old kinds.Object) (kinds.Object, error) {
		p := old.DeepCopyObject().(*corev1.Pod)
		if p.UID != *want.UID {
			return nil, errUIDPrecondition(c.sv.gr, p.Name, *want.UID, p.UID)
		}
		if rv := want.ResourceVersion; rv != nil && *rv != p.ResourceVersion {
			return nil, apierrors.NewConflict(c.sv.gr, p.Name, errOptimisticLock)
		}
		mark := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", LastTransitionTime: now()}
		for i := range p.Status.Conditions {
			if has := &p.Status.Conditions[i]; has.Type == mark.Type {
				if has.Status == mark.Status {
					mark.LastTransitionTime = has.LastTransitionTime
				}
				*has = mark
				return p, nil
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, mark)
		return p, nil
	}})
	if err == nil && want.ResourceVersion != nil {
		rv := a.entry.obj.GetResourceVersion()
		want.ResourceVersion = &rv
	}
	return err
}

// withoutBudget: a pod that does not run, or is on its way out, disrupts
// nothing.
func withoutBudget(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return pod.DeletionTimestamp != nil
}

// budgetOf finds the budget that covers a pod.
func (s *Server) budgetOf(c *call, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	res := s.catalog().byName[budgets]
	if res == nil {
		return nil, nil
	}
	got, err := s.store.Range(c.ctx, store.Range{Prefix: res.kind.Prefix(pod.Namespace)})
	if err != nil {
		return nil, storeError(err)
	}
	var found *policyv1.PodDisruptionBudget
	for _, rec := range got.Records {
		e, err := s.entryOf(res, rec)
		if err != nil {
			return nil, err
		}
		b := e.obj.(*policyv1.PodDisruptionBudget)
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !sel.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			return nil, apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
		}
		found = b
	}
	return found, nil
}

// mayGoUnhealthy: a pod that is not ready need not count, by the budget's
// policy.
func mayGoUnhealthy(pod *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// spend takes one disruption from a budget, or says that there is none left.
func (s *Server) spend(c *call, budget, pod string) error {
	res := s.catalog().byName[budgets]
	bc := &call{ctx: c.ctx, user: c.user, sv: res.hub, verb: "update", sub: "status", namespace: c.namespace, name: budget, dryRun: c.dryRun}
	_, err := s.change(bc, write{trusted: true, make: func(old kinds.Object) (kinds.Object, error) {
		b := old.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if err := refuseDisruption(b); err != nil {
			return nil, err
		}
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptionsAllowed == 0 {
			setDisruptionCondition(b)
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod] = now()
		return b, nil
	}})
	return err
}

func refuseDisruption(b *policyv1.PodDisruptionBudget) error {
	tooMany := func(retry int, cause string) error {
		err := apierrors.NewTooManyRequests(violatesBudget, retry)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: cause}}
		return err
	}
	st := &b.Status
	switch {
	case st.ObservedGeneration < b.Generation:
		return tooMany(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case st.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(budgets, b.Name, errors.New("pdb disruptions allowed is negative"))
	case len(st.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(budgets, b.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case st.DisruptionsAllowed == 0:
		return tooMany(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, st.DesiredHealthy, st.CurrentHealthy))
	}
	return nil
}

// setDisruptionCondition says that the last disruption was spent.
func setDisruptionCondition(b *policyv1.PodDisruptionBudget) {
	for i := range b.Status.Conditions {
		c := &b.Status.Conditions[i]
		if c.Type == policyv1.DisruptionAllowedCondition && c.Status != metav1.ConditionFalse {
			c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionFalse, policyv1.InsufficientPodsReason, now()
			c.ObservedGeneration = b.Status.ObservedGeneration
		}
	}
}
