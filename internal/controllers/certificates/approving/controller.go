// Package approving is the loop that approves what kubelets ask for: client
// certificates of nodes, when their sender may have them without a person's
// word.
//
//	by the node itself, for its own name: create certificatesigningrequests/selfnodeclient
//	by anybody, for a node:               create certificatesigningrequests/nodeclient
//
// Whether somebody may is asked of the API server (SubjectAccessReview), and
// asked again when roles or bindings change: nothing is polled.
//
// Failure: an approval is one write, guarded by the revision that was looked
// at. A request that is decided is left alone, whoever decided it.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/#approval-controller.
package approving

import (
	"context"
	"crypto/x509"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "csrapproving"

var reviews = authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")

// Controller is the loop, wired. Its keys are requests, by name.
type Controller struct {
	*loop.Loop
	client   client.Interface
	written  controllers.Written
	requests client.View
	rights   []client.View // what decides who may, as far as it is written down
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{client: opts.Client, requests: opts.Client.View(client.SigningRequests, client.ViewOptions{})}
	for _, res := range []string{"clusterroles", "clusterrolebindings"} {
		c.rights = append(c.rights, opts.Client.View(rbacv1.SchemeGroupVersion.WithResource(res), client.ViewOptions{}))
	}
	c.requests.Index(byState, func(obj client.Object) []string {
		if r, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && open(r) {
			return []string{isOpen}
		}
		return nil
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// byState finds the requests that a change of rights may matter to.
const (
	byState = "csrapproving.state"
	isOpen  = "open"
)

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	inputs := []controllers.Input{{View: c.requests, Changed: func(_, new client.Object) {
		if r, ok := new.(*certificatesv1.CertificateSigningRequest); ok && open(r) {
			c.Look(controllers.KeyOf(r))
		}
	}}}
	for _, v := range c.rights {
		inputs = append(inputs, controllers.Input{View: v, Changed: func(_, _ client.Object) {
			for _, r := range c.requests.ByIndex(byState, isOpen) {
				c.Look(controllers.KeyOf(r))
			}
		}})
	}
	return controllers.Run(ctx, c.Loop, inputs...)
}

// open tells whether the loop may have something to say of a request: it is
// for a node's client certificate, and undecided.
func open(r *certificatesv1.CertificateSigningRequest) bool {
	return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && len(r.Status.Certificate) == 0 &&
		!certificates.Is(r, certificatesv1.CertificateApproved) && !certificates.Is(r, certificatesv1.CertificateDenied)
}

// right is one by which a request is approved.
type right struct {
	sub     string // resource of the review, below certificatesigningrequests
	message string // of the condition, as upstream's
}

var (
	selfClient = right{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
	nodeClient = right{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
)

// rightsFor are those by which a request could be approved, the narrower
// first; none: it is a person's to decide.
func rightsFor(r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest) []right {
	switch {
	case certificates.Check(r.Spec.SignerName, x, r.Spec.Usages) != nil:
		return nil
	case r.Spec.Username == x.Subject.CommonName:
		return []right{selfClient, nodeClient}
	}
	return []right{nodeClient}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	r := client.In[*certificatesv1.CertificateSigningRequest](c.requests, "", key.Name)
	if r == nil || !open(r) {
		return loop.Done(), nil
	}
	x, err := certificates.Read(r)
	if err != nil {
		return loop.Done(), nil // nobody can approve it: the signer says so
	}
	rights := rightsFor(r, x)
	for _, right := range rights {
		may, err := c.may(ctx, r, right.sub)
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("ask whether %s may have it: %w", r.Spec.Username, err)
		}
		if may {
			return c.approve(ctx, key, r, right)
		}
	}
	if len(rights) == 0 {
		return loop.Done(), nil
	}
	return loop.WaitFor("", "%s may not create certificatesigningrequests/%s: a person has to approve it", r.Spec.Username, rights[0].sub), nil
}

func (c *Controller) may(ctx context.Context, r *certificatesv1.CertificateSigningRequest, sub string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range r.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := client.Create(ctx, c.client, reviews, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: sub, Verb: "create", Version: "*",
		},
	}})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func (c *Controller) approve(ctx context.Context, key loop.Key, r *certificatesv1.CertificateSigningRequest, by right) (loop.Outcome, error) {
	changed := r.DeepCopy()
	changed.Status.Conditions = append(changed.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: by.message,
	})
	got, err := c.client.Update(ctx, client.SigningRequests, changed, "approval")
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.requests, got, err, "approve", "the request of %s", r.Spec.Username)
}
