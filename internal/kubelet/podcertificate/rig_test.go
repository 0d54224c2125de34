package podcertificate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
)

// rig is a pod with a source, an API server and a signer that does as it is
// told, in a bubble.
type rig struct {
	t       *testing.T
	client  *faulty
	m       *Manager
	stop    func()
	pod     *v1.Pod
	account *v1.ServiceAccount
	node    *v1.Node
	source  *v1.PodCertificateProjection

	changed []types.UID
	warned  []error
	done    map[types.UID]bool // requests that were seen by the test
	ca      ed25519.PrivateKey
}

// faulty loses answers, or does not get through.
type faulty struct {
	client.Interface
	lose, away bool
}

func (f *faulty) Create(ctx context.Context, res client.Resource, obj client.Object, sub ...string) (client.Object, error) {
	if f.away {
		return nil, errors.New("the API server is away")
	}
	made, err := f.Interface.Create(ctx, res, obj, sub...)
	if f.lose {
		f.lose = false
		return nil, errors.New("the answer was lost")
	}
	return made, err
}

func newRig(t *testing.T) *rig {
	api := apitest.New(t, apitest.Options{})
	r := &rig{t: t, client: &faulty{Interface: api.Client("test")}, done: map[types.UID]bool{}}
	var err error
	if r.account, err = client.Create(t.Context(), r.client, client.ServiceAccounts, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "worker"}}); err != nil {
		t.Fatal(err)
	}
	if r.node, err = client.Create(t.Context(), r.client, client.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	if _, r.ca, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	r.pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-of-p"}, Spec: v1.PodSpec{ServiceAccountName: "worker"}}
	r.source = &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519", MaxExpirationSeconds: new(int32(7200)),
		CredentialBundlePath: "bundle.pem", UserAnnotations: map[string]string{"example.com/a": "b"}}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start starts a kubelet's part, after the one that may be there.
func (r *rig) start() {
	if r.stop != nil {
		r.stop()
	}
	r.m = New(Options{
		NodeName: "n1", Client: r.client, Node: func() *v1.Node { return r.node },
		Changed: func(pod types.UID) { r.changed = append(r.changed, pod) },
		Warn:    func(_ *v1.Pod, why error) { r.warned = append(r.warned, why) },
	})
	r.stop = r.m.Follow()
	synctest.Wait()
}

func (r *rig) get() (Credentials, time.Time, error) {
	defer synctest.Wait()
	return r.m.Get(r.t.Context(), r.pod, "v", 0, r.source)
}

// wait looks, and finds no certificate.
func (r *rig) wait() {
	r.t.Helper()
	if _, _, err := r.get(); err == nil {
		r.t.Fatal("there is a certificate before the signer answers")
	}
}

// keeps looks, finds what was there before and returns when to look again.
func (r *rig) keeps(want Credentials) time.Time {
	r.t.Helper()
	got, at, err := r.get()
	if err != nil || !bytes.Equal(got.Bundle(), want.Bundle()) {
		r.t.Fatalf("the certificate is not the same any more (%v)", err)
	}
	return at
}

// told are the pods that were told of changes since the last time.
func (r *rig) told() []types.UID {
	defer func() { r.changed = nil }()
	return r.changed
}

func (r *rig) all() []*certificatesv1.PodCertificateRequest {
	r.t.Helper()
	list, _, err := client.List[*certificatesv1.PodCertificateRequest](r.t.Context(), r.client, Resource, "default", metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// open is the one request that the test has not seen yet.
func (r *rig) open() *certificatesv1.PodCertificateRequest {
	r.t.Helper()
	var found *certificatesv1.PodCertificateRequest
	for _, one := range r.all() {
		if r.done[one.UID] {
			continue
		}
		if found != nil {
			r.t.Fatal("two requests are new")
		}
		found = one
	}
	if found == nil {
		r.t.Fatal("no request is new")
	}
	r.done[found.UID] = true
	return found
}

func (r *rig) answer(asked *certificatesv1.PodCertificateRequest, status certificatesv1.PodCertificateRequestStatus) {
	r.t.Helper()
	asked = asked.DeepCopy()
	asked.Status = status
	if _, err := client.Update(r.t.Context(), r.client, Resource, asked, "status"); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func condition(kind string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "NoSuchPods", Message: "not these", LastTransitionTime: metav1.Now()}}
}

func (r *rig) refuse(asked *certificatesv1.PodCertificateRequest, how string) {
	r.t.Helper()
	r.answer(asked, certificatesv1.PodCertificateRequestStatus{Conditions: condition(how)})
}

// issue signs a certificate of two hours that is to be renewed after one, and
// hands it over with its authority's.
func (r *rig) issue(asked *certificatesv1.PodCertificateRequest) {
	r.t.Helper()
	request, err := x509.ParseCertificateRequest(asked.Spec.StubPKCS10Request)
	if err != nil {
		r.t.Fatal(err)
	}
	from := time.Now().Truncate(time.Second)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: from.Add(2 * time.Hour), DNSNames: []string{"p.example.com"}}
	chain := bytes.Buffer{}
	for _, one := range []struct {
		cert *x509.Certificate
		key  any
	}{{leaf, request.PublicKey}, {authority, r.ca.Public()}} {
		der, err := x509.CreateCertificate(rand.Reader, one.cert, authority, one.key, r.ca)
		if err != nil {
			r.t.Fatal(err)
		}
		chain.WriteString("words between\n")
		chain.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Words": "words within"}, Bytes: der}))
	}
	r.answer(asked, certificatesv1.PodCertificateRequestStatus{
		Conditions: condition("Issued"), CertificateChain: chain.String(),
		NotBefore: &metav1.Time{Time: leaf.NotBefore}, NotAfter: &metav1.Time{Time: leaf.NotAfter}, BeginRefreshAt: &metav1.Time{Time: from.Add(time.Hour)},
	})
}

func (r *rig) remove(one *certificatesv1.PodCertificateRequest) {
	r.t.Helper()
	if err := r.client.Delete(r.t.Context(), Resource, one.Namespace, one.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}
