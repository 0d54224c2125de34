// Package certificates holds what the loops over requests for certificates
// share: how a request is read, and what the cluster's own signers ask of one.
//
//	request --approving--> Approved --signing--> certificate --cleaning--> gone
//	                `--(a person)--> Approved or Denied
//
// All functions are pure.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/.
package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// LegacyUnknownSigner signs whatever is approved. Requests for it come from
// before v1 of the API: they cannot be made any more.
const LegacyUnknownSigner = "kubernetes.io/legacy-unknown"

const (
	nodePrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// Read returns what a request asks to be signed.
func Read(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// Is tells whether a condition of a request holds.
func Is(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

// Check tells why a signer of the cluster does not sign a request as it
// stands; nil: it does.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
func Check(signer string, x *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName:
		return clientUsages(usages)
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return kubeletClient(x, usages)
	case certificatesv1.KubeletServingSignerName:
		return kubeletServing(x, usages)
	case LegacyUnknownSigner:
		return nil
	}
	return fmt.Errorf("the cluster does not sign for %s", signer)
}

// Ours tells whether a signer is one of the cluster's.
func Ours(signer string) bool {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.KubeletServingSignerName, LegacyUnknownSigner:
		return true
	}
	return false
}

// clientUsages: client auth it must be, and the two that key exchange needs it
// may be.
func clientUsages(usages []certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	other := slices.ContainsFunc(usages, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(allowed, u) })
	if other || !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("usages did not match %v", allowed)
	}
	return nil
}

// exactUsages: digital signature and purpose, with or without key encipherment
// (which only RSA keys have a use for).
func exactUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	want := []certificatesv1.KeyUsage{purpose, certificatesv1.UsageDigitalSignature}
	got := map[certificatesv1.KeyUsage]bool{}
	for _, u := range usages {
		if u != certificatesv1.UsageKeyEncipherment {
			got[u] = true
		}
	}
	if len(got) != len(want) || !got[purpose] || !got[certificatesv1.UsageDigitalSignature] {
		return fmt.Errorf("usages did not match %v", append(want, certificatesv1.UsageKeyEncipherment))
	}
	return nil
}

func nodeSubject(x *x509.CertificateRequest) error {
	switch {
	case len(x.Subject.Organization) != 1 || x.Subject.Organization[0] != nodesGroup:
		return errors.New("subject organization is not system:nodes")
	case !strings.HasPrefix(x.Subject.CommonName, nodePrefix):
		return errors.New("subject common name does not begin with system:node: prefix")
	case len(x.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed")
	case len(x.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	return nil
}

func kubeletClient(x *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch err := nodeSubject(x); {
	case err != nil:
		return err
	case len(x.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(x.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	}
	return exactUsages(usages, certificatesv1.UsageClientAuth)
}

func kubeletServing(x *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := nodeSubject(x); err != nil {
		return err
	}
	if len(x.DNSNames) == 0 && len(x.IPAddresses) == 0 {
		return errors.New("DNS or IP subjectAltName is required")
	}
	return exactUsages(usages, certificatesv1.UsageServerAuth)
}
