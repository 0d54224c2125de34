// Package replicationcontroller keeps as many pods alive as a
// ReplicationController claims: what is older than ReplicaSets, and the same
// but for the selector. So it is the loop of package replicaset, to whom
// ReplicationControllers are shown as ReplicaSets.
//
// Use, concurrency and failure are that package's.
//
// See https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/.
package replicationcontroller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
)

// Name of the loop.
const Name = "replicationcontroller"

var kind = corev1.SchemeGroupVersion.WithKind("ReplicationController")

// New wires the loop; Run turns it.
func New(opts controllers.Options) *replicaset.Controller {
	opts.Client = translator{opts.Client}
	opts.Events = recorder{opts.Recorder()}
	return replicaset.NewAs(opts, Name, kind)
}

// asSet shows a ReplicationController as a ReplicaSet. What it holds is shared.
func asSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        rc.Spec.Replicas,
			MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector:        &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas:             rc.Status.Replicas,
			FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas:        rc.Status.ReadyReplicas,
			AvailableReplicas:    rc.Status.AvailableReplicas,
			ObservedGeneration:   rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		rs.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rs
}

// asController is the way back.
func asController(rs *appsv1.ReplicaSet) *corev1.ReplicationController {
	rc := &corev1.ReplicationController{
		ObjectMeta: rs.ObjectMeta,
		Spec: corev1.ReplicationControllerSpec{
			Replicas:        rs.Spec.Replicas,
			MinReadySeconds: rs.Spec.MinReadySeconds,
			Selector:        rs.Spec.Selector.MatchLabels,
			Template:        &rs.Spec.Template,
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas:             rs.Status.Replicas,
			FullyLabeledReplicas: rs.Status.FullyLabeledReplicas,
			ReadyReplicas:        rs.Status.ReadyReplicas,
			AvailableReplicas:    rs.Status.AvailableReplicas,
			ObservedGeneration:   rs.Status.ObservedGeneration,
		},
	}
	for _, c := range rs.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rc
}

func show(obj client.Object) client.Object {
	if rc, ok := obj.(*corev1.ReplicationController); ok {
		return asSet(rc)
	}
	return obj
}

func showAll(objs []client.Object) []client.Object {
	for i := range objs {
		objs[i] = show(objs[i])
	}
	return objs
}

// translator is a client to whom ReplicaSets are ReplicationControllers.
type translator struct{ client.Interface }

func (t translator) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	if res != client.ReplicaSets {
		return t.Interface.Get(ctx, res, namespace, name)
	}
	obj, err := t.Interface.Get(ctx, client.ReplicationControllers, namespace, name)
	return show(obj), err
}

func (t translator) Update(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	rs, ok := obj.(*appsv1.ReplicaSet)
	if !ok {
		return t.Interface.Update(ctx, res, obj, sub...)
	}
	got, err := t.Interface.Update(ctx, client.ReplicationControllers, asController(rs), sub...)
	return show(got), err
}

func (t translator) View(res client.Resource, opts client.ViewOptions) client.View {
	if res != client.ReplicaSets {
		return t.Interface.View(res, opts)
	}
	return view{t.Interface.View(client.ReplicationControllers, opts)}
}

type view struct{ client.View }

func (v view) Get(namespace, name string) client.Object {
	obj := v.View.Get(namespace, name)
	if obj == nil {
		return nil
	}
	return show(obj)
}

func (v view) List(namespace string) []client.Object { return showAll(v.View.List(namespace)) }

func (v view) Index(name string, values func(client.Object) []string) {
	v.View.Index(name, func(obj client.Object) []string { return values(show(obj)) })
}

func (v view) ByIndex(name, value string) []client.Object {
	return showAll(v.View.ByIndex(name, value))
}

func (v view) Handle(f func(old, new client.Object)) (remove func()) {
	return v.View.Handle(func(old, new client.Object) {
		if old != nil {
			old = show(old)
		}
		if new != nil {
			new = show(new)
		}
		f(old, new)
	})
}

// recorder tells of ReplicationControllers.
type recorder struct{ client.Recorder }

func (r recorder) Event(obj client.Object, eventType, reason, format string, args ...any) {
	if rs, ok := obj.(*appsv1.ReplicaSet); ok {
		obj = asController(rs)
	}
	r.Recorder.Event(obj, eventType, reason, format, args...)
}
