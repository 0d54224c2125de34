package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Bounds for the life of a projected token.
const (
	minTokenSeconds = 10 * 60
	maxTokenSeconds = 1 << 32
)

const samePaths = "conflicting duplicate paths"

func (s *specCheck) validateProjected(source *corev1.ProjectedVolumeSource, path *field.Path) {
	s.mode(path, "defaultMode", source.DefaultMode)
	var paths check.Unique[string]
	// taken reports a file that two sources write, and names who came second.
	taken := func(file, who string) {
		if file != "" && paths.Seen(file) {
			s.Invalid(path, "", who, samePaths)
		}
	}
	for i := range source.Sources {
		p, sources := &source.Sources[i], 0
		at := path.Child("sources").Index(i)
		if p.Secret != nil {
			sources++
			s.NotEmpty(at.Child("secret"), "name", p.Secret.Name)
			s.validateItems(p.Secret.Items, at.Child("secret"))
			for _, item := range p.Secret.Items {
				taken(item.Path, p.Secret.Name)
			}
		}
		if p.ConfigMap != nil {
			sources++
			s.NotEmpty(at.Child("configMap"), "name", p.ConfigMap.Name)
			s.validateItems(p.ConfigMap.Items, at.Child("configMap"))
			for _, item := range p.ConfigMap.Items {
				taken(item.Path, p.ConfigMap.Name)
			}
		}
		if p.DownwardAPI != nil {
			sources++
			for j := range p.DownwardAPI.Items {
				s.validateDownwardFile(&p.DownwardAPI.Items[j], at.Child("downwardAPI"))
				taken(p.DownwardAPI.Items[j].Path, p.DownwardAPI.Items[j].Path)
			}
		}
		if p.ServiceAccountToken != nil {
			sources++
			s.validateTokenProjection(p.ServiceAccountToken, path, at.Child("serviceAccountToken"))
		}
		if p.ClusterTrustBundle != nil {
			sources++
			s.validateTrustBundle(p.ClusterTrustBundle, at.Child("clusterTrustBundle"))
			taken(p.ClusterTrustBundle.Path, p.ClusterTrustBundle.Path)
		}
		if p.PodCertificate != nil {
			sources++
			s.validatePodCertificate(p.PodCertificate, at.Child("podCertificate"))
			for _, file := range [...]string{p.PodCertificate.CredentialBundlePath, p.PodCertificate.KeyPath, p.PodCertificate.CertificateChainPath} {
				taken(file, file)
			}
		}
		if sources > 1 {
			s.Forbidden(at, "", "may not specify more than 1 volume type per source")
		}
	}
}

func (s *specCheck) validateTokenProjection(token *corev1.ServiceAccountTokenProjection, path, at *field.Path) {
	if e := token.ExpirationSeconds; e != nil {
		if *e < minTokenSeconds {
			s.Invalid(at, "expirationSeconds", *e, "may not specify a duration less than 10 minutes")
		}
		if *e > maxTokenSeconds {
			s.Invalid(at, "expirationSeconds", *e, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if token.Path == "" {
		s.Required(path, "path", "")
		return
	}
	validateLocalPath(&s.Errors, token.Path, path, "path", true)
}

func (s *specCheck) validateTrustBundle(b *corev1.ClusterTrustBundleProjection, path *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		s.Invalid(path, "", b, "only one of name and signerName may be used")
	case b.Name != nil:
		if *b.Name == "" {
			s.Required(path, "name", "must be a valid object name")
		}
		// signer.example.com:path:name names a bundle of a signer.
		last := (*b.Name)[strings.LastIndex(*b.Name, ":")+1:]
		for _, msg := range validation.IsDNS1123Subdomain(last) {
			s.Invalid(path, "name", *b.Name, fmt.Sprintf("not a valid clustertrustbundlename: %v", msg))
		}
		if b.LabelSelector != nil {
			s.Invalid(path, "labelSelector", b.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			s.Required(path, "signerName", "must be a valid signer name")
		}
		s.validateSigner(*b.SignerName, path)
		s.Add(metavalidation.ValidateLabelSelector(b.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, path.Child("labelSelector")))
	default:
		s.Required(path, "", "either name or signerName must be specified")
	}
	s.NotEmpty(path, "path", b.Path)
	validateLocalPath(&s.Errors, b.Path, path, "path", true)
}

// validateSigner wants a domain and a path: example.com/signer.
func (s *specCheck) validateSigner(name string, path *field.Path) {
	if name == "" {
		s.Required(path, "signerName", "")
		return
	}
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(rest, "/") {
		s.Invalid(path, "signerName", name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	s.Add(validation.IsFullyQualifiedDomainName(path.Child("signerName"), domain))
	for part := range strings.SplitSeq(rest, ".") {
		s.Text(path, "signerName", name, validation.IsDNS1123Subdomain(part))
	}
}

// Bounds for the life of a pod's certificate.
const (
	minCertificateSeconds = 60 * 60
	maxCertificateSeconds = 91 * 24 * 60 * 60
)

func (s *specCheck) validatePodCertificate(p *corev1.PodCertificateProjection, path *field.Path) {
	s.validateSigner(p.SignerName, path)
	check.Among(&s.Errors, path, "keyType", p.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if e := p.MaxExpirationSeconds; e != nil && *e < minCertificateSeconds {
		s.Invalid(path, "maxExpirationSeconds", *e, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minCertificateSeconds))
	} else if e != nil && *e > maxCertificateSeconds {
		s.Invalid(path, "maxExpirationSeconds", *e, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", maxCertificateSeconds))
	}
	files := 0
	for _, f := range [...]struct{ name, path string }{
		{"credentialBundlePath", p.CredentialBundlePath}, {"keyPath", p.KeyPath}, {"certificateChainPath", p.CertificateChainPath},
	} {
		if f.path != "" {
			files++
			validateLocalPath(&s.Errors, f.path, path, f.name, true)
		}
	}
	if files == 0 {
		s.Required(path, "", "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
