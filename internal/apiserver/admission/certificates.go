package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// Certificates writes into a request for a certificate who sent it, and asks
// whether somebody may approve requests for a signer, sign them, or say whom
// the signer's certificates are known by. Upstream has four plugins for it:
// CertificateApproval, CertificateSigning, CertificateSubjectRestriction and
// ClusterTrustBundleAttest.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization
type Certificates struct{ Authorizer authz.Authorizer }

// Name implements Plugin.
func (*Certificates) Name() string { return "CertificateApproval" }

// Admit implements Plugin.
func (*Certificates) Admit(_ context.Context, r *Request) error {
	csr := objectAs[*certificatesv1.CertificateSigningRequest](r, certificatesv1.GroupName, "certificatesigningrequests")
	if csr == nil || r.Operation != Create || r.User == nil {
		return nil
	}
	csr.Spec.Username, csr.Spec.UID, csr.Spec.Groups = r.User.Name, r.User.UID, slices.Clone(r.User.Groups)
	csr.Spec.Extra = nil
	for key, values := range r.User.Extra {
		if csr.Spec.Extra == nil {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		csr.Spec.Extra[key] = slices.Clone(values)
	}
	return nil
}

// Validate implements Plugin.
func (p *Certificates) Validate(ctx context.Context, r *Request) error {
	if r.Resource.Group != certificatesv1.GroupName || r.Operation == Delete {
		return nil
	}
	switch r.Resource.Resource {
	case "certificatesigningrequests":
		return p.validateSigningRequest(ctx, r)
	case "podcertificaterequests":
		return p.validatePodRequest(ctx, r)
	case "clustertrustbundles":
		return p.validateTrustBundle(ctx, r)
	}
	return nil
}

// validatePodRequest leaves the status of a pod's request to its signer: there
// is no approval between the two.
func (p *Certificates) validatePodRequest(ctx context.Context, r *Request) error {
	old, _ := r.Old.(*certificatesv1.PodCertificateRequest)
	if old == nil || r.Subresource != "status" {
		return nil
	}
	return p.may(ctx, r, "sign", old.Spec.SignerName)
}

func (p *Certificates) validateTrustBundle(ctx context.Context, r *Request) error {
	bundle, _ := r.Object.(*certificatesv1.ClusterTrustBundle)
	if bundle == nil || bundle.Spec.SignerName == "" {
		return nil
	}
	if ok := p.asks(ctx, r, "attest", bundle.Spec.SignerName); !ok {
		return r.forbidden(fmt.Sprintf("user not permitted to attest for signerName %q", bundle.Spec.SignerName))
	}
	return nil
}

func (p *Certificates) validateSigningRequest(ctx context.Context, r *Request) error {
	csr, _ := r.Object.(*certificatesv1.CertificateSigningRequest)
	old, _ := r.Old.(*certificatesv1.CertificateSigningRequest)
	if csr == nil {
		return nil
	}
	switch {
	case r.Operation == Create:
		if csr.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && asksForMasters(csr.Spec.Request) {
			return r.forbidden(fmt.Sprintf("use of %s signer with system:masters group is not allowed", csr.Spec.SignerName))
		}
	case old == nil:
	case r.Subresource == "approval":
		return p.may(ctx, r, "approve", old.Spec.SignerName)
	case r.Subresource == "status":
		// Conditions of others than the signer are nobody's secret.
		if string(csr.Status.Certificate) != string(old.Status.Certificate) || !apiequality.Semantic.DeepEqual(failed(csr), failed(old)) {
			return p.may(ctx, r, "sign", old.Spec.SignerName)
		}
	}
	return nil
}

func failed(r *certificatesv1.CertificateSigningRequest) (out []certificatesv1.CertificateSigningRequestCondition) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed {
			out = append(out, c)
		}
	}
	return out
}

// asksForMasters tells whether a certificate would make its owner an
// administrator.
func asksForMasters(request []byte) bool {
	block, _ := pem.Decode(request)
	if block == nil {
		return false // validation tells
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && slices.Contains(csr.Subject.Organization, "system:masters")
}

// may refuses who has not a verb on the signer.
func (p *Certificates) may(ctx context.Context, r *Request, verb, signer string) error {
	if p.asks(ctx, r, verb, signer) {
		return nil
	}
	return r.forbidden(fmt.Sprintf("user not permitted to %s requests with signerName %q", verb, signer))
}

// asks for a verb on the signer, by name or for all of its domain.
func (p *Certificates) asks(ctx context.Context, r *Request, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range [...]string{signer, domain + "/*"} {
		a := &authz.Attributes{
			User: r.User, Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name, IsResource: true,
		}
		if ok, _ := p.Authorizer.Authorize(ctx, a); ok {
			return true
		}
	}
	return false
}
