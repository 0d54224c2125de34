package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// components are what `kubectl get componentstatuses` shows, under upstream's
// names: the store, and the parts that turn here or report here.
func (c *controlPlane) components(ctx context.Context) []kinds.Object {
	return []kinds.Object{
		component("scheduler", c.reports.condition(schedulerIdentity.User)),
		component("controller-manager", c.reports.condition(controllersIdentity.User)),
		component("etcd-0", c.storeCondition(ctx)),
	}
}

func component(name string, healthy corev1.ComponentCondition) kinds.Object {
	healthy.Type = corev1.ComponentHealthy
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{healthy}}
}

var wellCondition = corev1.ComponentCondition{Status: corev1.ConditionTrue, Message: "ok"}

// storeCondition asks the store whether it takes writes, and for something.
func (c *controlPlane) storeCondition(ctx context.Context) corev1.ComponentCondition {
	var err error
	if failing, ok := c.store.(interface{ Failed() error }); ok {
		err = failing.Failed()
	}
	if err == nil {
		_, _, err = c.store.Get(ctx, "/registry/namespaces/default")
	}
	if err != nil {
		return corev1.ComponentCondition{Status: corev1.ConditionFalse, Error: err.Error()}
	}
	return wellCondition
}

// condition of a part that must turn somewhere: when it was last heard of. A
// part of this process turns as long as the process does.
func (r *reports) condition(user string) corev1.ComponentCondition {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, apart := r.expected[user]
	if !apart {
		return wellCondition
	}
	now, heard := time.Now(), time.Time{}
	for key, c := range r.copies {
		if key.user == user && c.heard.After(heard) {
			heard = c.heard
		}
	}
	cure := fmt.Sprintf("does `setpoint %s` run, and reach the API server?", e.part)
	switch {
	case heard.IsZero() && now.Sub(e.since) < silentAfter:
		return corev1.ComponentCondition{Status: corev1.ConditionUnknown, Message: "not heard of yet"}
	case heard.IsZero():
		return corev1.ComponentCondition{Status: corev1.ConditionFalse, Error: "none reports: " + cure}
	case now.Sub(heard) >= silentAfter:
		return corev1.ComponentCondition{Status: corev1.ConditionFalse, Error: "no word since " + heard.UTC().Format(time.RFC3339) + ": " + cure}
	}
	return wellCondition
}
