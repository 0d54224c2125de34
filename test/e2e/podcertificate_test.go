package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestPodCertificate: a pod waits for its signer, finds key and certificate in
// its volume, and other ones after its kubelet started anew; one that is denied
// says why.
func TestPodCertificate(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	s := newSigner(c)
	withCertificate := func(name string) string {
		return onePod(name, image, `volumes: [{name: id, projected: {defaultMode: 0400, sources: [
			{podCertificate: {signerName: example.com/pods, keyType: ECDSAP256, maxExpirationSeconds: 3600, credentialBundlePath: id/bundle.pem, keyPath: key.pem, certificateChainPath: chain.pem, userAnnotations: {example.com/role: cook}}},
			{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}]`, `volumeMounts: [{name: id, mountPath: /id}]`)
	}
	c.Apply(withCertificate("known"))
	c.Eventually(time.Minute, "the pod says what it waits for", func() error {
		return s.event("known", `FailedMount: MountVolume.SetUp failed for volume "id" : signer "example.com/pods" has not answered PodCertificateRequest default/known-`)
	})
	asked := s.next("known")
	if p := pod(c, "known"); asked.Spec.PodUID != p.UID || string(asked.Spec.NodeName) != p.Spec.NodeName || asked.Spec.ServiceAccountName != "default" || *asked.Spec.MaxExpirationSeconds != 3600 {
		t.Errorf("asked for %+v", asked.Spec)
	}
	s.issue(asked)
	ready(c, "known")
	first := s.holds("known")
	if got := sh(c, "known", "cat /id/name; stat -L -c ' %a' /id/key.pem"); strings.TrimSpace(got) != "known 400" {
		t.Errorf("beside the certificate: %q", got)
	}
	c.Kill()
	c.Up()
	s.issue(s.next("known"))
	c.Eventually(2*time.Minute, "the next kubelet brings another key", func() error {
		if s.holds("known").Equal(first) {
			return errors.New("it is the same")
		}
		return nil
	})
	c.Apply(withCertificate("unknown"))
	s.answer(s.next("unknown"), certificatesv1.PodCertificateRequestStatus{Conditions: said("Denied", "StrangePod", "nobody knows it")})
	c.Eventually(time.Minute, "the pod says why it does not start", func() error {
		return s.event("unknown", "StrangePod: nobody knows it")
	})
	if p := pod(c, "unknown"); p.Status.Phase != "Pending" {
		t.Errorf("a pod without its certificate is %s", p.Status.Phase)
	}
}

// signer is one as somebody would write it: a client.
type signer struct {
	c    *harness.Cluster
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	done map[string]bool // names of requests that were handed out
}

func newSigner(c *harness.Cluster) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.T.Fatal(err)
	}
	now := time.Now()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pods"}, NotBefore: now, NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err == nil {
		cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return &signer{c: c, key: key, cert: cert, done: map[string]bool{}}
}

// next waits for the next request for a pod.
func (s *signer) next(pod string) *certificatesv1.PodCertificateRequest {
	s.c.T.Helper()
	var found *certificatesv1.PodCertificateRequest
	s.c.Eventually(2*time.Minute, "a request for "+pod, func() error {
		var list certificatesv1.PodCertificateRequestList
		decode(s.c, &list, "get", "podcertificaterequests", "--field-selector=spec.signerName=example.com/pods,spec.podName="+pod, "-o", "json")
		for i := range list.Items {
			if !s.done[list.Items[i].Name] {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("%d requests, none is new", len(list.Items))
	})
	s.done[found.Name] = true
	return found
}

func said(kind, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
}

func (s *signer) answer(r *certificatesv1.PodCertificateRequest, status certificatesv1.PodCertificateRequestStatus) {
	s.c.T.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		s.c.T.Fatal(err)
	}
	s.c.Kubectl("patch", "podcertificaterequest", r.Name, "--subresource=status", "--type=merge", "-p", string(patch))
}

// issue certifies the key of a request for the name of its pod.
func (s *signer) issue(r *certificatesv1.PodCertificateRequest) {
	s.c.T.Helper()
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		s.c.T.Fatal(err)
	}
	from := time.Now().UTC().Truncate(time.Second)
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: from.Add(time.Hour),
		URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/" + r.Spec.PodName + "/" + r.Spec.UnverifiedUserAnnotations["example.com/role"]}}}
	der, err := x509.CreateCertificate(rand.Reader, cert, s.cert, csr.PublicKey, s.key)
	if err != nil {
		s.c.T.Fatal(err)
	}
	s.answer(r, certificatesv1.PodCertificateRequestStatus{
		Conditions:       said("Issued", "KnownPod", ""),
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        &metav1.Time{Time: from}, NotAfter: &metav1.Time{Time: from.Add(time.Hour)}, BeginRefreshAt: &metav1.Time{Time: from.Add(30 * time.Minute)},
	})
}

// holds is the certificate in a pod's volume, whose three files are to be of
// one piece.
func (s *signer) holds(pod string) *x509.Certificate {
	t := s.c.T
	t.Helper()
	bundle := []byte(sh(s.c, pod, "cat /id/id/bundle.pem"))
	parts := []byte(sh(s.c, pod, "cd -P /id/..data; cat key.pem chain.pem"))
	if !bytes.Equal(bundle, parts) {
		t.Errorf("the bundle is\n%s\nkey and chain are\n%s", bundle, parts)
	}
	pair, err := tls.X509KeyPair(bundle, bundle)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, bundle)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.cert)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Error(err)
	}
	if u := pair.Leaf.URIs; len(u) != 1 || u[0].String() != "spiffe://example.com/"+pod+"/cook" {
		t.Errorf("the certificate is for %v", u)
	}
	return pair.Leaf
}

// event wants an event of a pod that contains a text.
func (s *signer) event(pod, text string) error {
	out := s.c.Kubectl("get", "events", "--field-selector=involvedObject.name="+pod, "-o", `jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
	if !strings.Contains(out, text) {
		return fmt.Errorf("no %q in:\n%s", text, out)
	}
	return nil
}
