// Package serviceaccount is the loop that keeps a service account named
// default in every namespace, for pods that name none. Admission gives it to
// them, and refuses pods as long as it is not there.
//
// Use: New(options).Run(ctx). Keys are namespaces.
//
// Failure: an account that somebody deletes is made again, except in a
// namespace that ends. What is on it is let alone.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-controller.
package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Account is what the loop keeps.
const Account = "default"

// New wires the loop; Run turns it.
func New(opts controllers.Options) controllers.Controller {
	return controllers.NewFixtureLoop(opts, "serviceaccount", controllers.Fixture{
		Resource: client.ServiceAccounts, Kind: "ServiceAccount", Name: Account,
		Want: func(namespace string, there client.Object) client.Object {
			if there != nil {
				return nil
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Account}}
		},
	})
}
