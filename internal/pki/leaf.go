package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Profile says what a leaf certificate is for.
type Profile struct {
	// CommonName and Organizations become the user's name and groups of a
	// client certificate.
	CommonName    string
	Organizations []string
	// DNSNames and IPs that a serving certificate is good for.
	DNSNames []string
	IPs      []net.IP
	Server   bool
	Client   bool
}

func (p *Profile) usages() (u []x509.ExtKeyUsage) {
	if p.Server {
		u = append(u, x509.ExtKeyUsageServerAuth)
	}
	if p.Client {
		u = append(u, x509.ExtKeyUsageClientAuth)
	}
	return u
}

// fits tells whether cert is still good for the profile: it was issued for all
// that is asked, and its end is not near. A certificate that is good for more
// names than are asked is kept, so that two processes that ask for different
// names do not take turns replacing it... unless it was for another subject.
func (p *Profile) fits(cert, ca *x509.Certificate, now time.Time) bool {
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(-renewBefore)) {
		return false
	}
	if cert.CheckSignatureFrom(ca) != nil {
		return false
	}
	if cert.Subject.CommonName != p.CommonName || !sameSet(cert.Subject.Organization, p.Organizations) {
		return false
	}
	if !slices.Equal(cert.ExtKeyUsage, p.usages()) {
		return false
	}
	for _, name := range p.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range p.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// Leaf returns the certificate that lies under name, issued for p. It is
// issued anew when there is none or when it no longer fits.
func (a *Authority) Leaf(name string, p Profile) (*Pair, error) {
	path := filepath.Join(a.dir, name+".pem")
	if pair := a.stored(path, p); pair != nil {
		return pair, nil
	}
	unlock, err := lock(a.dir)
	if err != nil {
		return nil, fmt.Errorf("pki: %s: %w", name, err)
	}
	defer unlock()
	if pair := a.stored(path, p); pair != nil {
		return pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("pki: %s: %w", name, err)
	}
	der, err := a.Sign(key.Public(), p)
	if err != nil {
		return nil, err
	}
	pair, err := newPair(key, der)
	if err != nil {
		return nil, fmt.Errorf("pki: %s: %w", name, err)
	}
	pair.Chain = append(pair.Chain, a.cert.Raw)
	if err := WriteFile(path, pair.encode(), 0o600, false); err != nil {
		return nil, fmt.Errorf("pki: %s: %w", name, err)
	}
	return pair, nil
}

// stored returns the pair at path if it fits. One that cannot be read is as
// good as none: leaves are made again.
func (a *Authority) stored(path string, p Profile) *Pair {
	pair, err := readPair(path)
	if err != nil || !p.fits(pair.Cert, a.cert, time.Now()) {
		return nil
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 {
		return nil // others could read the key
	}
	pair.Chain = append(pair.Chain, a.cert.Raw)
	return pair
}

// Sign issues a certificate for a public key. Nothing is stored.
func (a *Authority) Sign(pub crypto.PublicKey, p Profile) ([]byte, error) {
	now := time.Now()
	return a.Issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: p.CommonName, Organization: p.Organizations},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           p.usages(),
		BasicConstraintsValid: true,
		DNSNames:              p.DNSNames,
		IPAddresses:           p.IPs,
	}, pub)
}

// Issue signs a certificate for a public key, and returns it in DER. The serial
// number is drawn here, and nothing outlives the authority; all else is as the
// template says, which is not changed. Nothing is stored.
func (a *Authority) Issue(template *x509.Certificate, pub crypto.PublicKey) ([]byte, error) {
	t := *template
	t.SerialNumber = serial()
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	if !t.NotBefore.Before(t.NotAfter) {
		return nil, fmt.Errorf("pki: sign for %q: the authority ends at %s", t.Subject.CommonName, a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	der, err := x509.CreateCertificate(rand.Reader, &t, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("pki: sign for %q: %w", t.Subject.CommonName, err)
	}
	return der, nil
}
