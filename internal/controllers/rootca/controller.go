// Package rootca is the loop that keeps, in every namespace, a ConfigMap with
// the certificates by which pods know the API server. It is mounted into every
// pod beside its token.
//
// Use: New(options, bundle).Run(ctx). Keys are namespaces.
//
// Failure: a ConfigMap that somebody changes or deletes is put right; one in a
// namespace that ends is let go. Certificates change with a new start only.
//
// See "kube-root-ca.crt" in
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/.
package rootca

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// ConfigMap is what the loop keeps, with the certificates under key.
const (
	ConfigMap = "kube-root-ca.crt"
	key       = "ca.crt"

	annotation  = "kubernetes.io/description"
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// New wires the loop, for a bundle of certificates in PEM; Run turns it.
func New(opts controllers.Options, bundle []byte) controllers.Controller {
	return controllers.NewFixtureLoop(opts, "rootca", controllers.Fixture{
		Resource: client.ConfigMaps, Kind: "ConfigMap", Name: ConfigMap,
		Want: func(namespace string, there client.Object) client.Object {
			had, _ := there.(*corev1.ConfigMap)
			if cm := want(namespace, had, string(bundle)); cm != nil {
				return cm
			}
			return nil
		},
	})
}

// want is what the ConfigMap ought to be; nil when it is that. Whatever else
// somebody put on its metadata stays.
func want(namespace string, there *corev1.ConfigMap, bundle string) *corev1.ConfigMap {
	data := map[string]string{key: bundle}
	if there == nil {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap, Annotations: map[string]string{annotation: description}},
			Data:       data,
		}
	}
	if maps.Equal(there.Data, data) && there.Annotations[annotation] == description {
		return nil
	}
	want := there.DeepCopy()
	want.Data = data
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[annotation] = description
	return want
}
