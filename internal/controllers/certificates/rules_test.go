package certificates_test

import (
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/certificates"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/requesttest"
)

// What each signer refuses, and in which words.
func TestCheck(t *testing.T) {
	serving := requesttest.Node("n1")
	serving.Signer, serving.Usages = certificatesv1.KubeletServingSignerName, requesttest.Server
	serving.CSR.DNSNames = []string{"n1"}
	with := func(a requesttest.Asked, change func(*requesttest.Asked)) requesttest.Asked {
		change(&a)
		return a
	}
	type asked = requesttest.Asked
	key := requesttest.Key(t)
	for name, c := range map[string]struct {
		asked asked
		want  string // "" is signed
	}{
		"user":                {requesttest.User("jane"), ""},
		"user who serves":     {with(requesttest.User("jane"), func(a *asked) { a.Usages = requesttest.Server }), "usages did not match [client auth digital signature key encipherment]"},
		"user without client": {with(requesttest.User("jane"), func(a *asked) { a.Usages = requesttest.Client[:1] }), "usages did not match [client auth digital signature key encipherment]"},
		"node":                {requesttest.Node("n1"), ""},
		"node with RSA's usages": {with(requesttest.Node("n1"), func(a *asked) {
			a.Usages = append([]certificatesv1.KeyUsage{certificatesv1.UsageKeyEncipherment}, requesttest.Client...)
		}), ""},
		"node of another group": {with(requesttest.Node("n1"), func(a *asked) { a.CSR.Subject.Organization = []string{"system:masters"} }), "subject organization is not system:nodes"},
		"node of two groups": {with(requesttest.Node("n1"), func(a *asked) { a.CSR.Subject.Organization = []string{"system:nodes", "system:masters"} }),
			"subject organization is not system:nodes"},
		"node by another name": {with(requesttest.Node("n1"), func(a *asked) {
			a.CSR.Subject = pkix.Name{CommonName: "admin", Organization: []string{"system:nodes"}}
		}), "subject common name does not begin with system:node: prefix"},
		"node with a name":    {with(requesttest.Node("n1"), func(a *asked) { a.CSR.DNSNames = []string{"n1"} }), "DNS subjectAltNames are not allowed"},
		"node with an IP":     {with(requesttest.Node("n1"), func(a *asked) { a.CSR.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }), "IP subjectAltNames are not allowed"},
		"node with a mailbox": {with(requesttest.Node("n1"), func(a *asked) { a.CSR.EmailAddresses = []string{"a@b.c"} }), "Email subjectAltNames are not allowed"},
		"node with a URI": {with(requesttest.Node("n1"), func(a *asked) { a.CSR.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }),
			"URI subjectAltNames are not allowed"},
		"node that serves":        {with(requesttest.Node("n1"), func(a *asked) { a.Usages = requesttest.Server }), "usages did not match [client auth digital signature key encipherment]"},
		"serving":                 {serving, ""},
		"serving nowhere":         {with(serving, func(a *asked) { a.CSR.DNSNames = nil }), "DNS or IP subjectAltName is required"},
		"serving as client":       {with(serving, func(a *asked) { a.Usages = requesttest.Client }), "usages did not match [server auth digital signature key encipherment]"},
		"whatever, before v1":     {asked{Signer: certificates.LegacyUnknownSigner, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageAny}}, ""},
		"a signer that is not us": {asked{Signer: "example.com/s"}, "the cluster does not sign for example.com/s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := requesttest.New(t, "r", c.asked, key)
			x, err := certificates.Read(r)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := certificates.Check(r.Spec.SignerName, x, r.Spec.Usages); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if ours := c.asked.Signer != "example.com/s"; certificates.Ours(c.asked.Signer) != ours {
				t.Errorf("ours: %t, want %t", !ours, ours)
			}
		})
	}
}
