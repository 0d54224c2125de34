// Package trustbundle is the loop that publishes by which certificates
// anything, in the cluster or out of it, knows the API server: a
// ClusterTrustBundle of the signer kubernetes.io/kube-apiserver-serving.
//
// The bundle's name ends with a hash of what is in it, so that another
// authority is another object: who mounts the signer's bundles sees the new
// one before the old one goes.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#cluster-trust-bundles.
package trustbundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "trustbundle"

// Signer whose bundle is published.
const Signer = "kubernetes.io/kube-apiserver-serving"

// Bundles is the resource of ClusterTrustBundles.
var Bundles = certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles")

// Controller is the loop, wired. Its keys are bundles of the signer, by name.
type Controller struct {
	*loop.Loop
	client  client.Interface
	want    *certificatesv1.ClusterTrustBundle
	written controllers.Written
	bundles client.View
}

// New wires the loop, for a bundle of certificates in PEM; Run turns it.
func New(opts controllers.Options, bundle []byte) *Controller {
	c := &Controller{
		client: opts.Client,
		want: &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: nameOf(bundle)},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: Signer, TrustBundle: string(bundle)},
		},
		bundles: opts.Client.View(Bundles, client.ViewOptions{FieldSelector: "spec.signerName=" + Signer}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// nameOf begins as every bundle of the signer must.
func nameOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return strings.ReplaceAll(Signer, "/", ":") + ":" + hex.EncodeToString(sum[:12])
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.Look(controllers.KeyOf(c.want))
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.bundles, Changed: func(old, new client.Object) {
		c.Look(controllers.KeyOf(controllers.Present(old, new)))
		if new != nil && new.GetName() == c.want.Name {
			for _, b := range c.bundles.List("") { // those before it may go now
				c.Look(controllers.KeyOf(b))
			}
		}
	}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	there := client.In[*certificatesv1.ClusterTrustBundle](c.bundles, "", key.Name)
	switch {
	case key.Name == c.want.Name && there == nil:
		got, err := c.client.Create(ctx, Bundles, c.want)
		if apierrors.IsAlreadyExists(err) {
			return loop.WaitFor("ClusterTrustBundle "+key.Name, "it is there but not seen yet"), nil
		}
		return c.written.Outcome(key, c.bundles, got, err, "create", "the bundle")
	case key.Name == c.want.Name && there.Spec.TrustBundle == c.want.Spec.TrustBundle, there == nil:
		return loop.Done(), nil
	case key.Name == c.want.Name:
		changed := there.DeepCopy()
		changed.Spec = c.want.Spec
		got, err := c.client.Update(ctx, Bundles, changed)
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.bundles, got, err, "restore", "the bundle")
	case c.bundles.Get("", c.want.Name) == nil:
		return loop.WaitFor("ClusterTrustBundle "+c.want.Name, "what is trusted from now on has to be there before what was goes"), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, Bundles, there); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete a bundle of an older authority: %w", err)
	}
	return loop.Done(), nil // the view shows it soon
}
