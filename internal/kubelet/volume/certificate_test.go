package volume

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kubelet/podcertificate"
)

var renewCertificate = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// certificates answers for all signers but one, and counts.
type certificates struct{ asked, forgotten int }

func (c *certificates) Get(_ context.Context, _ *v1.Pod, volume string, n int, p *v1.PodCertificateProjection) (podcertificate.Credentials, time.Time, error) {
	c.asked++
	if p.SignerName == "example.com/slow" {
		return podcertificate.Credentials{}, time.Time{}, errors.New("not yet")
	}
	return podcertificate.Credentials{Key: []byte("key\n"), Chain: []byte("chain\n")}, renewCertificate, nil
}

func (c *certificates) Forget(types.UID) { c.forgotten++ }

// TestCertificate: a key and its chain are written where the pod says, readable
// to the pod's group only where it has one, and looked at again in time.
func TestCertificate(t *testing.T) {
	group := int64(1000)
	for name, tc := range map[string]struct {
		source v1.PodCertificateProjection
		group  *int64
		want   map[string]string
		mode   fs.FileMode
	}{
		"a bundle":    {v1.PodCertificateProjection{CredentialBundlePath: "a/b.pem"}, nil, map[string]string{"a/b.pem": "key\nchain\n"}, 0o400},
		"one of each": {v1.PodCertificateProjection{KeyPath: "k", CertificateChainPath: "c"}, nil, map[string]string{"k": "key\n", "c": "chain\n"}, 0o400},
		"all":         {v1.PodCertificateProjection{CredentialBundlePath: "b", KeyPath: "k", CertificateChainPath: "c"}, nil, map[string]string{"b": "key\nchain\n", "k": "key\n", "c": "chain\n"}, 0o400},
		"a group's":   {v1.PodCertificateProjection{KeyPath: "k"}, &group, map[string]string{"k": "key\n"}, 0o640},
	} {
		n := 0
		m := manager(t, &n)
		m.opts.Certificates = &certificates{}
		pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{FSGroup: tc.group}}}
		files, renew, err := m.content(t.Context(), pod, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{DefaultMode: new(int32(0o400)), Sources: []v1.VolumeProjection{{PodCertificate: &tc.source}}}}})
		if err != nil || !renew.Equal(renewCertificate) || len(files) != len(tc.want) {
			t.Errorf("%s: %d files, renewed at %v: %v", name, len(files), renew, err)
		}
		for path, want := range tc.want {
			if f := files[path]; string(f.Data) != want || f.Mode != tc.mode {
				t.Errorf("%s: %s is %q with mode %o, want %q with %o", name, path, f.Data, f.Mode, want, tc.mode)
			}
		}
	}
}

// TestCertificatesAtOnce: one signer that takes its time keeps no other from
// being asked, and the error is that of what is waited for.
func TestCertificatesAtOnce(t *testing.T) {
	n := 0
	m := manager(t, &n)
	c := &certificates{}
	m.opts.Certificates = c
	from := func(signer string) v1.VolumeProjection {
		return v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{SignerName: signer, KeyPath: signer}}
	}
	_, _, err := m.content(t.Context(), &v1.Pod{}, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{from("example.com/slow"), from("example.com/other")}}}})
	if err == nil || err.Error() != "not yet" || c.asked != 2 {
		t.Errorf("asked for %d of 2: %v", c.asked, err)
	}
}

// TestCertificatesForgotten: keys go with the pod's volumes.
func TestCertificatesForgotten(t *testing.T) {
	n := 0
	m := manager(t, &n)
	c := &certificates{}
	m.opts.Certificates = c
	if err := errors.Join(m.TearDown(context.Background(), "u"), m.Unmount(context.Background(), "u")); err != nil || c.forgotten != 2 {
		t.Errorf("forgotten %d times: %v", c.forgotten, err)
	}
}
