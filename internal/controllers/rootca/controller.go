// Package rootca is the loop that keeps, in every namespace, a ConfigMap with
// the certificates by which pods know the API server.
//
// See "kube-root-ca.crt" in
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/.
package rootca

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop. ConfigMap is what it keeps, with the certificates under
// key.
const (
	Name      = "rootca"
	ConfigMap = "kube-root-ca.crt"
	key       = "ca.crt"

	annotation  = "kubernetes.io/description"
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Controller is the loop, wired. Its keys are namespaces, by name.
type Controller struct {
	*loop.Loop
	client           client.Interface
	bundle           string
	written          controllers.Written
	namespaces, maps client.View
}

// New wires the loop, for a bundle of certificates in PEM; Run turns it.
func New(opts controllers.Options, bundle []byte) *Controller {
	c := &Controller{
		client:     opts.Client,
		bundle:     string(bundle),
		namespaces: opts.Client.View(client.Namespaces, client.ViewOptions{}),
		maps:       opts.Client.View(client.ConfigMaps, client.ViewOptions{FieldSelector: "metadata.name=" + ConfigMap}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.namespaces, Changed: controllers.Look(c.Loop)},
		controllers.Input{View: c.maps, Changed: controllers.LookAtNamespace(c.Loop, ConfigMap)},
	)
}

func (c *Controller) reconcile(ctx context.Context, at loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, at); err != nil {
		return loop.Outcome{}, err
	}
	if !controllers.Active(client.In[*corev1.Namespace](c.namespaces, "", at.Name)) {
		return loop.Done(), nil
	}
	there := client.In[*corev1.ConfigMap](c.maps, at.Name, ConfigMap)
	want := c.want(at.Name, there)
	var got client.Object
	var err error
	switch {
	case want == nil:
		return loop.Done(), nil
	case there == nil:
		got, err = c.client.Create(ctx, client.ConfigMaps, want)
	default:
		got, err = c.client.Update(ctx, client.ConfigMaps, want)
	}
	switch {
	case controllers.NamespaceEnding(err):
		return loop.Done(), nil
	case apierrors.IsAlreadyExists(err):
		return loop.WaitFor("ConfigMap "+at.Name+"/"+ConfigMap, "it is there but not seen yet"), nil
	case err != nil:
		return loop.Outcome{}, err
	}
	c.written.Note(at, c.maps, got)
	return loop.Acted("wrote ConfigMap %s", ConfigMap), nil
}

// want is what the ConfigMap ought to be; nil when it is that. Whatever else
// somebody put on its metadata stays.
func (c *Controller) want(namespace string, there *corev1.ConfigMap) *corev1.ConfigMap {
	data := map[string]string{key: c.bundle}
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
