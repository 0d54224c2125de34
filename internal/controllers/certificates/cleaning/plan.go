// Package cleaning is the loops that delete requests for certificates which
// nobody is going to need: those of people and kubelets (csrcleaning), and
// those of pods (podcertificatecleaning).
//
// Failure: when a request has to go is worked out from what is written in it,
// so a restart forgets nothing; a deletion is guarded by the revision that was
// looked at. Nothing is polled: a request is looked at when its time is up.
package cleaning

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// How long requests stay.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#request-signing-process
const (
	decided = time.Hour      // issued, denied, failed
	pending = 24 * time.Hour // nobody has said anything
	// ofPods is how long a pod's request stays, whatever became of it: the
	// kubelet has taken its certificate, or asked anew, long before.
	ofPods = 15 * time.Minute
)

// signingDue is when a request has to go, and why; the zero time is never.
// What was approved but not issued stays: its signer may be away.
func signingDue(r *certificatesv1.CertificateSigningRequest) (due time.Time, why string) {
	earlier := func(t time.Time, reason string) {
		if due.IsZero() || t.Before(due) {
			due, why = t, reason
		}
	}
	if len(r.Status.Conditions) == 0 {
		earlier(r.CreationTimestamp.Add(pending), "nobody approved or denied it")
	}
	for _, c := range r.Status.Conditions {
		if c.LastUpdateTime.IsZero() || c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case certificatesv1.CertificateDenied:
			earlier(c.LastUpdateTime.Add(decided), "it was denied")
		case certificatesv1.CertificateFailed:
			earlier(c.LastUpdateTime.Add(decided), "its signer refused it")
		case certificatesv1.CertificateApproved:
			if len(r.Status.Certificate) > 0 {
				earlier(c.LastUpdateTime.Add(decided), "it was issued")
			}
		}
	}
	if end, ok := ends(r.Status.Certificate); ok {
		earlier(end, "its certificate has expired")
	}
	return due, why
}

// ends is when the first certificate in PEM ends.
func ends(text []byte) (time.Time, bool) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}

func podDue(r *certificatesv1.PodCertificateRequest) (due time.Time, why string) {
	return r.CreationTimestamp.Add(ofPods), "it is old, and its kubelet has what it needs"
}
