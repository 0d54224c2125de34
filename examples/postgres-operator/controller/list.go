package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/setpoint-project/setpoint/examples/postgres-operator/api/v1"
)

// ListName is the ConfigMap that lists all clusters and where they answer.
const ListName = "postgres-clusters"

func entry(c *databasev1.PostgresCluster) string { return c.Namespace + "." + c.Name }

func (r *Reconciler) listed() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Home, Name: ListName}}
}

// list puts the cluster on the list.
func (r *Reconciler) list(ctx context.Context, c *databasev1.PostgresCluster) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		list := r.listed()
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, list, func() error {
			if list.Data == nil {
				list.Data = map[string]string{}
			}
			list.Data[entry(c)] = endpoint(c)
			return nil
		})
		return err
	})
}

// unlist takes it off.
func (r *Reconciler) unlist(ctx context.Context, c *databasev1.PostgresCluster) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		list := r.listed()
		if err := r.Get(ctx, client.ObjectKeyFromObject(list), list); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		if _, ok := list.Data[entry(c)]; !ok {
			return nil
		}
		delete(list.Data, entry(c))
		return r.Update(ctx, list)
	})
}
