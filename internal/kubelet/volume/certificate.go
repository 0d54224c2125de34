package volume

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kubelet/podcertificate"
)

// Certificates are where the keys and certificates of pods come from.
type Certificates interface {
	// Get is what the n-th source of a volume consists of, and when to ask
	// again.
	Get(ctx context.Context, pod *v1.Pod, volume string, n int, p *v1.PodCertificateProjection) (podcertificate.Credentials, time.Time, error)
	Forget(pod types.UID)
}

// certificate is the files of a key and its certificate: one of both, or one of
// each. They change with the rest of the volume, in one go.
// https://kubernetes.io/docs/concepts/storage/projected-volumes/#podcertificate
func (b *builder) certificate(n int, p *v1.PodCertificateProjection) error {
	if b.m.opts.Certificates == nil {
		return errors.New("this node gets no certificates for pods")
	}
	got, renew, err := b.m.opts.Certificates.Get(b.ctx, b.pod, b.volume, n, p)
	if err != nil {
		return err
	}
	b.renewAt(renew)
	for path, data := range map[string][]byte{p.CredentialBundlePath: got.Bundle(), p.KeyPath: got.Key, p.CertificateChainPath: got.Chain} {
		if path != "" {
			b.files[path] = File{data, tokenMode(b.pod, b.mode)}
		}
	}
	return nil
}

// renewAt makes the volume be looked at again by a time.
func (b *builder) renewAt(t time.Time) {
	if b.renew.IsZero() || t.Before(b.renew) {
		b.renew = t
	}
}

// forget drops what is in memory of a pod's volumes.
func (m *Manager) forget(uid types.UID) {
	m.tokens.forget(uid)
	if m.opts.Certificates != nil {
		m.opts.Certificates.Forget(uid)
	}
}
