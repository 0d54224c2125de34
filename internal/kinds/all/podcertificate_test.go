package all

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodCertificateStatus: a signer answers once, for the key and within the
// times that it was asked for.
func TestPodCertificateStatus(t *testing.T) {
	type status = certificatesv1.PodCertificateRequestStatus
	_, key, err := ed25519.GenerateKey(rand.Reader)
	der := stub(t, key, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at := func(from time.Time, after time.Duration) *metav1.Time { return &metav1.Time{Time: from.Add(after)} }
	condition := func(kind string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: *at(time.Now(), 0)}}
	}
	issued := func(key ed25519.PrivateKey, start, life time.Duration) status {
		from := time.Now().Add(start).Truncate(time.Second)
		leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(life)}
		der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return status{
			Conditions: condition("Issued"), NotBefore: at(from, 0), NotAfter: at(from, life), BeginRefreshAt: at(from, life/2),
			CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		}
	}
	k := kindOf(t, "PodCertificateRequest")
	for _, tc := range []struct {
		name   string
		was    func() status
		change func(s *status)
		ok     bool
	}{
		{name: "issued", change: func(s *status) {}, ok: true},
		{name: "denied", change: func(s *status) { *s = status{Conditions: condition("Denied")} }, ok: true},
		{name: "still open", change: func(s *status) { *s = status{} }, ok: true},
		{name: "issued again", was: func() status { return issued(key, 0, time.Hour) }, change: func(s *status) { s.BeginRefreshAt = at(s.NotBefore.Time, 20*time.Minute) }},
		{name: "opened again", was: func() status { return status{Conditions: condition("Denied")} }, change: func(s *status) { *s = status{} }},
		{name: "denied with a certificate", change: func(s *status) { s.Conditions = condition("Denied") }},
		{name: "a certificate while open", change: func(s *status) { s.Conditions = nil }},
		{name: "two ends", change: func(s *status) { s.Conditions = append(s.Conditions, condition("Failed")...) }},
		{name: "some condition", change: func(s *status) { *s = status{Conditions: condition("Ready")} }},
		{name: "not true", change: func(s *status) { s.Conditions[0].Status = metav1.ConditionFalse }},
		{name: "another key", change: func(s *status) { *s = issued(other, 0, time.Hour) }},
		{name: "old", change: func(s *status) { *s = issued(key, -6*time.Minute, time.Hour) }},
		{name: "short", change: func(s *status) { *s = issued(key, 0, 59*time.Minute) }},
		{name: "long", change: func(s *status) { *s = issued(key, 0, 3*time.Hour) }},
		{name: "no chain", change: func(s *status) { s.CertificateChain = "x" }},
		{name: "rest of a chain", change: func(s *status) { s.CertificateChain += "-----BEGIN KEY-----\n-----END KEY-----\n" }},
		{name: "huge", change: func(s *status) { s.CertificateChain += string(make([]byte, 100<<10)) }},
		{name: "no times", change: func(s *status) { s.NotBefore, s.NotAfter, s.BeginRefreshAt = nil, nil, nil }},
		{name: "another start", change: func(s *status) { s.NotBefore = at(s.NotBefore.Time, time.Second) }},
		{name: "another end", change: func(s *status) { s.NotAfter = at(s.NotAfter.Time, time.Second) }},
		{name: "refresh too soon", change: func(s *status) { s.BeginRefreshAt = at(s.NotBefore.Time, 9*time.Minute) }},
		{name: "refresh too late", change: func(s *status) { s.BeginRefreshAt = at(s.NotAfter.Time, -9*time.Minute) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{
					StubPKCS10Request: der, MaxExpirationSeconds: new(int32(7200)),
				}}
				if tc.was != nil {
					old.Status = tc.was()
				}
				obj := old.DeepCopy()
				obj.Status = issued(key, 0, time.Hour)
				tc.change(&obj.Status)
				if errs := k.Subresources["status"].ValidateUpdate(t.Context(), obj, old); tc.ok != (len(errs) == 0) {
					t.Errorf("accepted is to be %t: %v", tc.ok, errs)
				}
			})
		})
	}
}
