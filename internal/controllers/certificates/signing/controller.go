package signing

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "csrsigning"

// Authority signs. pki.Authority is one.
type Authority interface {
	// Issue signs a certificate for a key and returns it in DER. It chooses
	// the serial number, and lets no certificate outlive the authority.
	Issue(template *x509.Certificate, key crypto.PublicKey) ([]byte, error)
}

// Controller is the loop, wired. Its keys are requests, by name.
type Controller struct {
	*loop.Loop
	client    client.Interface
	authority Authority
	written   controllers.Written
	requests  client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options, authority Authority) *Controller {
	c := &Controller{client: opts.Client, authority: authority, requests: opts.Client.View(client.SigningRequests, client.ViewOptions{})}
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.requests, Changed: func(old, new client.Object) {
		if r, ok := controllers.Present(old, new).(*certificatesv1.CertificateSigningRequest); ok && certificates.Ours(r.Spec.SignerName) {
			c.Look(controllers.KeyOf(r))
		}
	}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	r := client.In[*certificatesv1.CertificateSigningRequest](c.requests, "", key.Name)
	switch {
	case r == nil || !certificates.Ours(r.Spec.SignerName) || len(r.Status.Certificate) > 0,
		certificates.Is(r, certificatesv1.CertificateDenied), certificates.Is(r, certificatesv1.CertificateFailed):
		return loop.Done(), nil
	case !certificates.Is(r, certificatesv1.CertificateApproved):
		return loop.WaitFor("", "somebody has to approve or deny the request of %s (kubectl certificate approve %s)", r.Spec.Username, r.Name), nil
	}
	x, err := certificates.Read(r)
	if err == nil {
		err = x.CheckSignature()
	}
	if err == nil {
		err = certificates.Check(r.Spec.SignerName, x, r.Spec.Usages)
	}
	changed := r.DeepCopy()
	if err != nil {
		changed.Status.Conditions = append(changed.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: err.Error(),
		})
		return c.write(ctx, key, changed, "refuse")
	}
	der, err := c.authority.Issue(template(r, x, time.Now()), x.PublicKey)
	if err != nil {
		return loop.Outcome{}, fmt.Errorf("sign the request: %w", err)
	}
	changed.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return c.write(ctx, key, changed, "issue")
}

func (c *Controller) write(ctx context.Context, key loop.Key, changed *certificatesv1.CertificateSigningRequest, verb string) (loop.Outcome, error) {
	got, err := c.client.Update(ctx, client.SigningRequests, changed, "status")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.requests, got, err, verb, "a certificate to %s", changed.Spec.Username)
}
