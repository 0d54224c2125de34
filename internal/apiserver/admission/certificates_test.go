package admission

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// onlyOn allows a verb on one signer.
type onlyOn struct{ verb, name string }

func (o onlyOn) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	return a.Verb == o.verb && a.Name == o.name && a.Resource == "signers", ""
}

func TestCertificates(t *testing.T) {
	ctx := context.Background()
	const res = "certificatesigningrequests.certificates.k8s.io"
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: named("", "c"), Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "a.example/b", Username: "forged", Groups: []string{"forged"}}}

	p := &Certificates{Authorizer: onlyOn{"approve", "a.example/*"}}
	r := request(Create, res, csr, nil)
	r.User = &authn.User{Name: "jane", UID: "u", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}
	if err := p.Admit(ctx, r); err != nil {
		t.Fatal(err)
	}
	if s := csr.Spec; s.Username != "jane" || s.UID != "u" || len(s.Groups) != 1 || s.Groups[0] != "dev" || s.Extra["k"][0] != "v" {
		t.Errorf("requester %+v", s)
	}

	approval := request(Update, res, csr.DeepCopy(), csr)
	approval.Subresource = "approval"
	if err := p.Validate(ctx, approval); err != nil {
		t.Errorf("who may approve for the domain: %v", err)
	}
	wantRefused(t, (&Certificates{Authorizer: onlyOn{"sign", "a.example/b"}}).Validate(ctx, approval), 403, `user not permitted to approve requests with signerName "a.example/b"`)

	signed := csr.DeepCopy()
	signed.Status.Certificate = []byte("x")
	status := request(Update, res, signed, csr)
	status.Subresource = "status"
	wantRefused(t, p.Validate(ctx, status), 403, `user not permitted to sign requests with signerName "a.example/b"`)
	if err := (&Certificates{Authorizer: onlyOn{"sign", "a.example/b"}}).Validate(ctx, status); err != nil {
		t.Errorf("who may sign: %v", err)
	}
	status.Object = csr.DeepCopy()
	if err := p.Validate(ctx, status); err != nil {
		t.Errorf("a status without a certificate: %v", err)
	}
}

func TestNoCertificateForMasters(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "u", Organization: []string{"system:masters"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: named("", "c"), Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientSignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}}
	r := request(Create, "certificatesigningrequests.certificates.k8s.io", csr, nil)
	wantRefused(t, (&Certificates{}).Validate(context.Background(), r), 403, "system:masters group is not allowed")
}

// A pod's request has no approval: only its signer writes its status. Whom a
// signer's certificates are known by, only who may attest for it says.
func TestSignersOfPodsAndBundles(t *testing.T) {
	ctx := context.Background()
	pod := &certificatesv1.PodCertificateRequest{ObjectMeta: named("ns", "r"), Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "a.example/b"}}
	status := request(Update, "podcertificaterequests.certificates.k8s.io", pod.DeepCopy(), pod)
	status.Subresource = "status"
	may, mayNot := &Certificates{Authorizer: onlyOn{"sign", "a.example/*"}}, &Certificates{Authorizer: onlyOn{"approve", "a.example/b"}}
	if err := may.Validate(ctx, status); err != nil {
		t.Errorf("who may sign for the domain: %v", err)
	}
	wantRefused(t, mayNot.Validate(ctx, status), 403, `user not permitted to sign requests with signerName "a.example/b"`)
	if err := mayNot.Validate(ctx, request(Create, "podcertificaterequests.certificates.k8s.io", pod, nil)); err != nil {
		t.Errorf("a pod's request is made: %v", err)
	}
	if err := mayNot.Validate(ctx, request(Delete, "podcertificaterequests.certificates.k8s.io", nil, pod)); err != nil {
		t.Errorf("a pod's request is deleted: %v", err)
	}

	bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: named("", "a.example:b:x"), Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "a.example/b"}}
	attests := &Certificates{Authorizer: onlyOn{"attest", "a.example/b"}}
	for _, r := range []*Request{
		request(Create, "clustertrustbundles.certificates.k8s.io", bundle, nil),
		request(Update, "clustertrustbundles.certificates.k8s.io", bundle.DeepCopy(), bundle),
	} {
		if err := attests.Validate(ctx, r); err != nil {
			t.Errorf("who may attest: %v", err)
		}
		wantRefused(t, may.Validate(ctx, r), 403, `user not permitted to attest for signerName "a.example/b"`)
	}
	bundle.Spec.SignerName = ""
	if err := may.Validate(ctx, request(Create, "clustertrustbundles.certificates.k8s.io", bundle, nil)); err != nil {
		t.Errorf("a bundle of no signer: %v", err)
	}
}
