package signing

import (
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/setpoint-project/setpoint/internal/controllers/certificates"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/requesttest"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// How long certificates live, from when they are signed.
func TestLife(t *testing.T) {
	const day = 24 * 60 * 60
	for asked, want := range map[int32]time.Duration{
		0:         365*24*time.Hour - 5*time.Minute,
		1:         10 * time.Minute, // only before v1 could one ask for less
		600:       10 * time.Minute,
		3600:      time.Hour,
		day:       24*time.Hour - 5*time.Minute,
		400 * day: 365*24*time.Hour - 5*time.Minute,
	} {
		r := requesttest.New(t, "r", requesttest.User("u"), requesttest.Key(t))
		if asked > 0 {
			r.Spec.ExpirationSeconds = &asked
		}
		x, err := certificates.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		cert := template(r, x, now)
		if got := cert.NotAfter.Sub(now); got != want {
			t.Errorf("for %d s: %v, want %v", asked, got, want)
		}
		if !cert.NotBefore.Equal(now.Add(-5 * time.Minute)) {
			t.Errorf("it begins %v", now.Sub(cert.NotBefore))
		}
	}
}

// Every usage that the API knows is in the certificate, and no more than was
// asked for: an authority least of all.
func TestIssued(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := requesttest.Asked{Signer: certificates.LegacyUnknownSigner}
	for u := range keyUsages {
		a.Usages = append(a.Usages, u)
	}
	for u := range extendedUsages {
		a.Usages = append(a.Usages, u)
	}
	if len(a.Usages) != 23 {
		t.Errorf("%d usages, the API has 23", len(a.Usages))
	}
	a.CSR.DNSNames, a.CSR.IPAddresses = []string{"a.example"}, []net.IP{net.IPv4(10, 0, 0, 1).To4()}
	a.CSR.Subject.CommonName = "cn"
	key := requesttest.Key(t)
	r := requesttest.New(t, "r", a, key)
	x, err := certificates.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	der, err := authority.Issue(template(r, x, time.Now()), x.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if cert.IsCA || !cert.BasicConstraintsValid {
		t.Error("whoever asks becomes an authority")
	}
	if cert.KeyUsage != 1<<9-1 || len(cert.ExtKeyUsage) != 12 || !slices.IsSorted(cert.ExtKeyUsage) {
		t.Errorf("usages %b, %v", cert.KeyUsage, cert.ExtKeyUsage)
	}
	if cert.Subject.CommonName != "cn" || !slices.Equal(cert.DNSNames, a.CSR.DNSNames) || !cert.IPAddresses[0].Equal(a.CSR.IPAddresses[0]) {
		t.Errorf("%v %v %v", cert.Subject, cert.DNSNames, cert.IPAddresses)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		t.Error("it is for another key")
	}
	if err := cert.CheckSignatureFrom(authority.CA()); err != nil {
		t.Error(err)
	}

	one := template(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Usages: requesttest.Client}}, x, time.Now())
	if one.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(one.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("a client's usages are %b, %v", one.KeyUsage, one.ExtKeyUsage)
	}
}
