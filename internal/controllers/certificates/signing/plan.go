// Package signing is the loop that signs what was approved, for the cluster's
// own signers, with the cluster's authority:
//
//	kubernetes.io/kube-apiserver-client          whom the API server takes for its user
//	kubernetes.io/kube-apiserver-client-kubelet  nodes
//	kubernetes.io/kubelet-serving                what kubelets serve with
//	kubernetes.io/legacy-unknown                 whatever was approved before v1
//
// A request that a signer's rules forbid is told so, once, by its condition
// Failed. Of a request only the subject and the names are signed; nobody is
// made an authority.
//
// Failure: a certificate is one write, guarded by the revision that was looked
// at; one that was signed and not written is forgotten, and signed anew.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers.
package signing

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Lives of certificates. A request may ask for less than the longest, but not
// for less than the shortest.
const (
	longest  = 365 * 24 * time.Hour
	shortest = 10 * time.Minute
	// backdate is how far in the past a certificate begins, for peers whose
	// clock is behind. Long ones give it off their end, as upstream's do.
	backdate = 5 * time.Minute
	short    = 8 * time.Hour
)

// template is the certificate that a request asks for, at a time.
func template(r *certificatesv1.CertificateSigningRequest, x *x509.CertificateRequest, now time.Time) *x509.Certificate {
	life := longest
	if s := r.Spec.ExpirationSeconds; s != nil {
		life = min(max(time.Duration(*s)*time.Second, shortest), longest)
	}
	end := now.Add(life)
	if life >= short {
		end = end.Add(-backdate)
	}
	usage, extended := usages(r.Spec.Usages)
	return &x509.Certificate{
		Subject: x.Subject, RawSubject: x.RawSubject,
		DNSNames: x.DNSNames, IPAddresses: x.IPAddresses, EmailAddresses: x.EmailAddresses, URIs: x.URIs,
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true,
	}
}

var keyUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// usages are the API's words as certificates have them. Which the API knows is
// for its validation; extended ones come in an order that does not depend on
// the request's.
func usages(asked []certificatesv1.KeyUsage) (usage x509.KeyUsage, extended []x509.ExtKeyUsage) {
	for _, u := range asked {
		usage |= keyUsages[u]
		if e, ok := extendedUsages[u]; ok && !slices.Contains(extended, e) {
			extended = append(extended, e)
		}
	}
	slices.SortFunc(extended, func(a, b x509.ExtKeyUsage) int { return cmp.Compare(a, b) })
	return usage, extended
}
