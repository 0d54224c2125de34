// Package requesttest makes requests for certificates, for tests.
package requesttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Usages of a client and of a server.
var (
	Client = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	Server = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
)

// Asked is what a request is signed with and says.
type Asked struct {
	Signer string
	User   string // who sends it
	Groups []string
	CSR    x509.CertificateRequest
	Usages []certificatesv1.KeyUsage // nil: Client
}

// Node asks for what the kubelet of a node needs to be that node.
func Node(node string) Asked {
	return Asked{
		Signer: certificatesv1.KubeAPIServerClientKubeletSignerName, User: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"},
		CSR: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}},
	}
}

// User asks for what makes its owner a user.
func User(name string) Asked {
	return Asked{Signer: certificatesv1.KubeAPIServerClientSignerName, User: "jane", CSR: x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}}
}

// Key is one that only tests hold.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// New makes the request, signed with key.
func New(t testing.TB, name string, a Asked, key *ecdsa.PrivateKey) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &a.CSR, key)
	if err != nil {
		t.Fatal(err)
	}
	usages := a.Usages
	if usages == nil {
		usages = Client
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: a.Signer, Username: a.User, Groups: a.Groups, Usages: usages,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}
