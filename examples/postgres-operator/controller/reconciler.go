// Package controller makes PostgresClusters true: for each a Secret with its
// password, a ConfigMap with its configuration, a Service and a StatefulSet,
// all of them owned by it, and an entry in the list of clusters, which is not
// and which a finalizer therefore takes away.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

// Finalizer keeps a PostgresCluster until it is off the list.
const Finalizer = "database.example.com/unlist"

// Reconciler reconciles PostgresClusters.
type Reconciler struct {
	client.Client
	// Home is the namespace of the operator, where the list of clusters lies.
	Home string
}

// SetupWithManager lets the reconciler look whenever a cluster or something
// that a cluster owns changes.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).
		For(&databasev1.PostgresCluster{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Complete(r)
}

// Reconcile looks at one cluster and closes the difference.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var c databasev1.PostgresCluster
	if err := r.Get(ctx, req.NamespacedName, &c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, &c)
	}
	if controllerutil.AddFinalizer(&c, Finalizer) {
		return ctrl.Result{}, r.Update(ctx, &c) // the update brings us back here
	}
	if err := r.list(ctx, &c); err != nil {
		return ctrl.Result{}, err
	}
	set, err := r.children(ctx, &c)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &c, set)
}

// report writes the status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, c *databasev1.PostgresCluster, set *appsv1.StatefulSet) error {
	was := c.Status.DeepCopy()
	c.Status.ObservedGeneration = c.Generation
	c.Status.Replicas = set.Status.Replicas
	c.Status.ReadyReplicas = set.Status.ReadyReplicas
	c.Status.Endpoint = endpoint(c)
	ready := metav1.Condition{Type: databasev1.Ready, Status: metav1.ConditionFalse, Reason: databasev1.ReasonStarting,
		Message: "some servers are not ready", ObservedGeneration: c.Generation}
	if set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == c.Spec.Replicas {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, databasev1.ReasonAllReady, "all servers are ready"
	}
	meta.SetStatusCondition(&c.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(was, &c.Status) {
		return nil
	}
	return r.Status().Update(ctx, c)
}

// finalize does what owner references cannot, and lets the cluster go.
func (r *Reconciler) finalize(ctx context.Context, c *databasev1.PostgresCluster) error {
	if !controllerutil.ContainsFinalizer(c, Finalizer) {
		return nil
	}
	if err := r.unlist(ctx, c); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(c, Finalizer)
	return client.IgnoreNotFound(r.Update(ctx, c))
}
