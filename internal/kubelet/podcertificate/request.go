package podcertificate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/setpoint-project/setpoint/internal/client"
)

// attempt is a key and the request for it. The name is chosen here: when the
// answer to a Create is lost, the next try finds the request there.
type attempt struct {
	name  string
	pem   []byte // the key
	stub  []byte
	until time.Time // when to give up, once it is filed
}

// longestName leaves room for what makes a request's name its own, within the
// 253 characters of a name.
const longestName = 240

func newAttempt(pod *v1.Pod, keyType string) (*attempt, error) {
	key, err := newKey(keyType)
	if err != nil {
		return nil, err
	}
	a := &attempt{name: strings.TrimRight(pod.Name[:min(len(pod.Name), longestName)], ".-") + "-" + utilrand.String(10)}
	if a.stub, err = stub(key); err != nil {
		return nil, err
	}
	a.pem, err = encodeKey(key)
	return a, err
}

// file asks for a certificate. What it has made stays for the next try when the
// API server cannot be asked.
func (m *Manager) file(ctx context.Context, pod *v1.Pod, e *entry, p *v1.PodCertificateProjection, now time.Time) error {
	if e.asking == nil {
		a, err := newAttempt(pod, p.KeyType)
		if err != nil {
			return err
		}
		e.asking = a
	}
	r, err := m.request(ctx, pod, e.asking, p)
	if err != nil {
		return err
	}
	made, err := client.Create(ctx, m.opts.Client, Resource, r)
	if apierrors.IsAlreadyExists(err) {
		if made, err = client.Get[*certificatesv1.PodCertificateRequest](ctx, m.opts.Client, Resource, r.Namespace, r.Name); err == nil && !same(made, e.asking, pod) {
			e.asking = nil // somebody else's; another name next time
			err = fmt.Errorf("PodCertificateRequest %s/%s is not this kubelet's", r.Namespace, r.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("failed to create PodCertificateRequest: %w", err)
	}
	e.from = time.Time{}
	e.asking.until = now.Add(answerIn + rand.N(answerJitter))
	m.mu.Lock()
	e.filed, e.gone = made.UID, false
	m.mu.Unlock()
	return nil
}

// request is the object that is filed. It goes with the pod, if not before.
func (m *Manager) request(ctx context.Context, pod *v1.Pod, a *attempt, p *v1.PodCertificateProjection) (*certificatesv1.PodCertificateRequest, error) {
	node := m.opts.Node()
	if node == nil {
		return nil, fmt.Errorf("node %q is not known yet", m.opts.NodeName)
	}
	account, err := client.Get[*v1.ServiceAccount](ctx, m.opts.Client, client.ServiceAccounts, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch service account: %w", err)
	}
	seconds := int32(defaultSeconds)
	if p.MaxExpirationSeconds != nil {
		seconds = *p.MaxExpirationSeconds
	}
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: a.name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: p.SignerName,
			PodName:    pod.Name, PodUID: pod.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds:      &seconds,
			StubPKCS10Request:         a.stub,
			UnverifiedUserAnnotations: p.UserAnnotations,
		},
	}, nil
}

// defaultSeconds is how long a certificate is good whose pod does not say.
const defaultSeconds = 24 * 60 * 60

// verdict is the condition by which a signer answered, nil while it has not.
func verdict(r *certificatesv1.PodCertificateRequest) *metav1.Condition {
	for i := range r.Status.Conditions {
		switch c := &r.Status.Conditions[i]; c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			return c
		}
	}
	return nil
}

func waiting(pod *v1.Pod, p *v1.PodCertificateProjection, name string) error {
	return fmt.Errorf("signer %q has not answered PodCertificateRequest %s/%s yet", p.SignerName, pod.Namespace, name)
}

func refusal(r *certificatesv1.PodCertificateRequest, said *metav1.Condition) error {
	how := "denied"
	if said.Type == certificatesv1.PodCertificateRequestConditionTypeFailed {
		how = "failed"
	}
	return fmt.Errorf("signer %q %s PodCertificateRequest %s/%s: %s: %s", r.Spec.SignerName, how, r.Namespace, r.Name, said.Reason, said.Message)
}
