// Package podcertificate gets the certificates that pods have in their projected
// volumes: it makes a key, asks a signer by way of a PodCertificateRequest, and
// asks again, with another key, when the certificate is to be renewed.
//
//	Get --> no key yet, or time to renew --> Create PodCertificateRequest
//	                                           | signer: Issued, Denied, Failed
//	view of the node's requests <--------------+
//	  |
//	  +--> Changed(pod) --> Get --> key and chain
//
// Use: New, then Get for each source of each volume as often as one likes, and
// Forget when the pod's volumes are taken away. Follow makes Changed be called.
//
// Keys live in memory only. After a restart all are made and asked for anew;
// what was written for a pod before stays until then.
//
// A request that was denied or has failed is the last word for a pod that has no
// certificate yet, as upstream has it: a signer that changes its mind is asked
// by another pod. One that has a certificate keeps it, and asks again later.
//
// Concurrency: a Manager may be used from many goroutines, for one pod from one
// at a time.
//
// Failure: while there is no certificate, Get answers with what it waits for.
package podcertificate

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Resource is that of the requests.
var Resource = certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")

// Options of a Manager.
type Options struct {
	NodeName string
	Client   client.Interface
	// Node is the node's object, or nil while it is not known.
	Node func() *v1.Node
	// Changed is told the pod of each request that was answered or is gone. It
	// must be quick.
	Changed func(pod types.UID)
	// Warn is told why a certificate that a pod has could not be renewed.
	Warn func(pod *v1.Pod, why error)
}

// Credentials are what a pod finds in its volume, in PEM.
type Credentials struct {
	Key   []byte // PKCS #8
	Chain []byte // the pod's certificate, then those between it and its root
}

// Bundle is the key and, behind it, the chain.
func (c Credentials) Bundle() []byte { return slices.Concat(c.Key, c.Chain) }

// Manager holds the certificates of a node's pods.
type Manager struct {
	opts     Options
	requests client.View // those for pods of this node

	mu   sync.Mutex
	pods map[types.UID]map[source]*entry // guarded by mu; entries are the pod's (see entry)
}

// source is one of a pod's: the n-th of a volume.
type source struct {
	volume string
	n      int
}

// New makes a Manager.
func New(o Options) *Manager {
	return &Manager{opts: o, pods: map[types.UID]map[source]*entry{},
		requests: o.Client.View(Resource, client.ViewOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", o.NodeName).String()})}
}

// Follow calls Changed as requests change, until stop is called.
func (m *Manager) Follow() (stop func()) { return m.requests.Handle(m.changed) }

func (m *Manager) changed(old, now client.Object) {
	if was, ok := old.(*certificatesv1.PodCertificateRequest); ok && (now == nil || now.GetUID() != was.UID) {
		m.lose(was)
		m.opts.Changed(was.Spec.PodUID)
	}
	if is, ok := now.(*certificatesv1.PodCertificateRequest); ok && verdict(is) != nil {
		m.opts.Changed(is.Spec.PodUID)
	}
}

// lose notes that a request is gone.
func (m *Manager) lose(r *certificatesv1.PodCertificateRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.pods[r.Spec.PodUID] {
		if e.filed == r.UID {
			e.gone = true
		}
	}
}

// Forget drops what a pod has.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, pod)
}

// entry is what is known of a source. filed and gone are guarded by the
// Manager's mu, the rest belongs to who calls Get for the pod.
type entry struct {
	have    *Credentials // nil: none yet
	ask     time.Time    // when to ask, where nothing is asked; zero: at once
	from    time.Time    // when that begins; zero once another was asked for
	refused error        // why there will be none

	asking *attempt  // nil: nothing is asked
	filed  types.UID // of the request of asking; "": not filed yet
	gone   bool      // the request with that UID is
}

// Times are by the clock on the wall, as certificates are judged.
const (
	// A request that nobody answers is given up before the API server deletes
	// it, a quarter of an hour after it was made.
	answerIn     = 10 * time.Minute
	answerJitter = 2 * time.Minute
	// Certificates that were issued together are not renewed together. A
	// certificate is good for ten minutes at least once it should be renewed.
	renewJitter = 5 * time.Minute
	// A certificate begins at most so long after it was issued.
	maxSkew = 5 * time.Minute
	// A certificate that could not be renewed.
	againIn     = 5 * time.Minute
	againJitter = 5 * time.Minute
)

// Get is what a source of a pod's volume consists of, and when to call again at
// the latest. It never waits for a signer.
func (m *Manager) Get(ctx context.Context, pod *v1.Pod, volume string, n int, p *v1.PodCertificateProjection) (Credentials, time.Time, error) {
	e := m.entry(pod.UID, source{volume, n})
	now := time.Now().Round(0)
	if err := m.read(pod, e, now); err != nil {
		m.refuse(pod, e, err, now)
	}
	if e.refused == nil && m.unfiled(e) && e.due(now) {
		if err := m.file(ctx, pod, e, p, now); err != nil {
			if e.have == nil {
				return Credentials{}, time.Time{}, err
			}
			m.opts.Warn(pod, err)
			e.ask = now.Add(againIn + rand.N(againJitter))
		}
	}
	switch {
	case e.refused != nil:
		return Credentials{}, time.Time{}, e.refused
	case e.have == nil:
		return Credentials{}, time.Time{}, waiting(pod, p, e.asking.name)
	case m.unfiled(e):
		return *e.have, e.ask, nil
	}
	return *e.have, e.asking.until, nil
}

func (m *Manager) entry(pod types.UID, s source) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.pods[pod]
	if of == nil {
		of = map[source]*entry{}
		m.pods[pod] = of
	}
	e := of[s]
	if e == nil {
		e = &entry{}
		of[s] = e
	}
	return e
}

func (m *Manager) unfiled(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.filed == ""
}

// settle ends an attempt.
func (m *Manager) settle(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.asking, e.filed, e.gone = nil, "", false
}

// read takes over what became of the request; the error is the signer's no.
func (m *Manager) read(pod *v1.Pod, e *entry, now time.Time) error {
	m.mu.Lock()
	filed, gone := e.filed, e.gone
	m.mu.Unlock()
	if filed == "" {
		return nil
	}
	r, _ := m.requests.Get(pod.Namespace, e.asking.name).(*certificatesv1.PodCertificateRequest)
	if r == nil || r.UID != filed {
		if gone || !now.Before(e.asking.until) {
			m.settle(e)
		}
		return nil
	}
	said := verdict(r)
	switch {
	case said == nil && now.Before(e.asking.until):
		return nil
	case said == nil:
		m.settle(e)
		return nil
	case said.Type != certificatesv1.PodCertificateRequestConditionTypeIssued:
		m.settle(e)
		return refusal(r, said)
	}
	e.have = &Credentials{Key: e.asking.pem, Chain: encodeChain(r.Status.CertificateChain)}
	e.ask = renewal(r, now)
	if t := r.Status.NotBefore; t != nil {
		e.from = t.Time
	}
	m.settle(e)
	return nil
}

// due tells whether it is time to ask. A clock that was set back makes a
// certificate one of the future, which nobody takes.
func (e *entry) due(now time.Time) bool {
	return !now.Before(e.ask) || now.Add(maxSkew).Before(e.from)
}

// refuse takes over a signer's no.
func (m *Manager) refuse(pod *v1.Pod, e *entry, why error, now time.Time) {
	if e.have == nil {
		e.refused = why
		return
	}
	m.opts.Warn(pod, why)
	e.ask = now.Add(againIn + rand.N(againJitter))
}

// renewal is when to renew an issued certificate.
func renewal(r *certificatesv1.PodCertificateRequest, now time.Time) time.Time {
	at := now
	if t := r.Status.BeginRefreshAt; t != nil { // always, by the API server's rules
		at = t.Time
	}
	return at.Add(rand.N(renewJitter))
}

// same tells whether a request is for the key of an attempt.
func same(r *certificatesv1.PodCertificateRequest, a *attempt, pod *v1.Pod) bool {
	return r.Spec.PodUID == pod.UID && bytes.Equal(r.Spec.StubPKCS10Request, a.stub)
}
