package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

const (
	maxChainSize = 100 << 10
	maxSkew      = 5 * time.Minute  // between a signer's clock and ours
	refreshRoom  = 10 * time.Minute // to both ends of a certificate's life
)

// ended returns the condition that ends a request, "" while it is open.
func ended(conditions []metav1.Condition) string {
	for _, c := range conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			return c.Type
		}
	}
	return ""
}

// validatePodRequestStatus lets a signer answer a request once.
func validatePodRequestStatus(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	var c check.Errors
	path := field.NewPath("status")
	conditions := path.Child("conditions")
	for i, condition := range r.Status.Conditions {
		at := conditions.Index(i)
		if ended(r.Status.Conditions[i:i+1]) == "" {
			c.Add(field.ErrorList{field.NotSupported(at.Child("type"), condition.Type, []string{
				certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed})})
			continue
		}
		if ended(r.Status.Conditions[:i]) != "" {
			c.Invalid(at, "type", condition.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`)
		}
		check.Among(&c, at, "status", condition.Status, metav1.ConditionTrue)
	}
	c.Add(metav1validation.ValidateConditions(r.Status.Conditions, conditions))
	if len(c.List) > 0 {
		return c.List
	}
	if ended(old.Status.Conditions) != "" {
		if !apiequality.Semantic.DeepEqual(r.Status, old.Status) {
			c.Invalid(path, "", field.OmitValueType{}, "immutable after PodCertificateRequest is issued, denied, or failed")
		}
		return c.List
	}
	bare := certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions}
	switch ended(r.Status.Conditions) {
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		c.Add(validateChain(r, old, path))
	case "":
		if !apiequality.Semantic.DeepEqual(r.Status, old.Status) {
			c.Invalid(path, "", field.OmitValueType{}, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
		}
	default:
		if !apiequality.Semantic.DeepEqual(r.Status, bare) {
			c.Invalid(path, "", field.OmitValueType{}, "non-condition status fields must be empty when denying or failing the PodCertificateRequest")
		}
	}
	return c.List
}

// validateChain holds what a signer issued to the key and the life that were
// asked for. Who signed it is between the signer and those who trust it.
func validateChain(r, old *certificatesv1.PodCertificateRequest, path *field.Path) field.ErrorList {
	var c check.Errors
	chain, status := path.Child("certificateChain"), &r.Status
	if len(status.CertificateChain) > maxChainSize {
		c.TooLong(chain, "", maxChainSize)
		return c.List
	}
	leaf, wrong := leafOf([]byte(status.CertificateChain))
	if wrong != "" {
		c.Invalid(chain, "", status.CertificateChain, wrong)
		return c.List
	}
	for _, name := range leaf.DNSNames {
		if name == "" || strings.Contains(name, "..") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			c.Invalid(chain, "", name, "leaf certificate's DNSName should not be empty, contain '..', or start or end with '.'")
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			c.Invalid(chain, "", address, "leaf certificate should not contain invalid EmailAddress")
		}
	}
	asked, err := x509.ParseCertificateRequest(old.Spec.StubPKCS10Request)
	if err != nil {
		c.Invalid(field.NewPath("spec"), "stubPKCS10Request", field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return c.List
	}
	if key, ok := asked.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !key.Equal(leaf.PublicKey) {
		c.Invalid(chain, "", status.CertificateChain, "leaf certificate was not issued to the requested public key")
	}
	before, after, refresh := status.NotBefore, status.NotAfter, status.BeginRefreshAt
	if before == nil {
		c.Required(path, "notBefore", "must be present and consistent with the issued certificate")
	}
	if after == nil {
		c.Required(path, "notAfter", "must be present and consistent with the issued certificate")
	}
	if refresh == nil {
		c.Required(path, "beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]")
	}
	if len(c.List) > 0 {
		return c.List
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch skew := time.Since(before.Time).Abs(); {
	case !before.Time.Equal(leaf.NotBefore):
		c.Invalid(path, "notBefore", before.Time, "must be set to the NotBefore time encoded in the leaf certificate")
	case skew > maxSkew:
		c.Invalid(path, "notBefore", before.Time, "must be set to within 5 minutes of kube-apiserver's current time")
	case !after.Time.Equal(leaf.NotAfter):
		c.Invalid(path, "notAfter", after.Time, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < minLife*time.Second:
		c.Invalid(chain, "", life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(*r.Spec.MaxExpirationSeconds)*time.Second:
		c.Invalid(chain, "", life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", *r.Spec.MaxExpirationSeconds))
	case refresh.Time.Before(before.Add(refreshRoom)):
		c.Invalid(path, "beginRefreshAt", refresh.Time, "must be at least 10 minutes after status.notBefore")
	case refresh.Time.After(after.Add(-refreshRoom)):
		c.Invalid(path, "beginRefreshAt", refresh.Time, "must be at least 10 minutes before status.notAfter")
	}
	return c.List
}

// leafOf reads a chain and returns its first certificate, or what is wrong.
func leafOf(text []byte) (leaf *x509.Certificate, wrong string) {
	for {
		var block *pem.Block
		switch block, text = pem.Decode(text); {
		case block == nil && leaf == nil:
			return nil, "issued certificate chain must contain at least one certificate"
		case block == nil:
			return leaf, ""
		case block.Type != "CERTIFICATE":
			return nil, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil && leaf == nil:
			return nil, "leaf certificate does not parse as valid X.509"
		case err != nil:
			return nil, "intermediate certificate does not parse as valid X.509"
		case leaf == nil:
			leaf = parsed
		}
	}
}
