package volume

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func certificate(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

func trusted(name, alive string, certificates ...string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"alive": alive}},
		Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: strings.Join(certificates, "and\n")}}
}

func (objects) TrustBundle(_ context.Context, name string) (*certificatesv1.ClusterTrustBundle, error) {
	if name != "alone" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, name)
	}
	return trusted(name, "", certificate("one"), certificate("two")), nil
}

func (objects) TrustBundles(_ context.Context, signer string) ([]*certificatesv1.ClusterTrustBundle, error) {
	if signer != "example.com/s" {
		return nil, nil
	}
	return []*certificatesv1.ClusterTrustBundle{
		trusted("s:a", "yes", certificate("one"), certificate("two")),
		trusted("s:b", "yes", certificate("two"), certificate("three"), certificate("three")),
		trusted("s:c", "no", certificate("four")),
	}, nil
}

// TestTrust: the certificates of all bundles that are chosen, each once; none,
// where none is allowed, is an empty file, and an error where not.
func TestTrust(t *testing.T) {
	yes, alone, none, signer, other := true, "alone", "none", "example.com/s", "example.com/other"
	all, alive := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"alive": "yes"}}
	dead := &metav1.LabelSelector{MatchLabels: map[string]string{"alive": "never"}}
	for name, tc := range map[string]struct {
		source v1.ClusterTrustBundleProjection
		want   []string
		fails  bool
	}{
		"by name":               {v1.ClusterTrustBundleProjection{Name: &alone}, []string{"one", "two"}, false},
		"no such":               {v1.ClusterTrustBundleProjection{Name: &none}, nil, true},
		"no such, optional":     {v1.ClusterTrustBundleProjection{Name: &none, Optional: &yes}, nil, false},
		"all of a signer":       {v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: all}, []string{"one", "two", "three", "four"}, false},
		"some of a signer":      {v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: alive}, []string{"one", "two", "three"}, false},
		"none of a signer":      {v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: dead}, nil, true},
		"none, optional":        {v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: dead, Optional: &yes}, nil, false},
		"no selector":           {v1.ClusterTrustBundleProjection{SignerName: &signer}, nil, true},
		"no selector, optional": {v1.ClusterTrustBundleProjection{SignerName: &signer, Optional: &yes}, nil, false},
		"another signer":        {v1.ClusterTrustBundleProjection{SignerName: &other, LabelSelector: all}, nil, true},
		"neither":               {v1.ClusterTrustBundleProjection{Optional: &yes}, nil, true},
	} {
		n := 0
		tc.source.Path = "ca/trust.pem"
		files, _, err := manager(t, &n).content(t.Context(), &v1.Pod{}, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: &tc.source}}}}})
		if (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		want := ""
		for _, c := range tc.want {
			want += certificate(c)
		}
		if f, ok := files["ca/trust.pem"]; !ok || string(f.Data) != want || f.Mode != 0o644 {
			t.Errorf("%s: got %q with mode %v, want %q", name, f.Data, f.Mode, want)
		}
	}
}

// TestTrustReferences: what a pod holds is what its volumes are made of.
func TestTrustReferences(t *testing.T) {
	one, signer, other := "one", "example.com/s", "example.com/unselected"
	project := func(sources ...v1.VolumeProjection) v1.Volume {
		return v1.Volume{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}}
	}
	by := func(p v1.ClusterTrustBundleProjection) v1.VolumeProjection {
		return v1.VolumeProjection{ClusterTrustBundle: &p}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{
		{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		project(by(v1.ClusterTrustBundleProjection{Name: &one}), by(v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: &metav1.LabelSelector{}})),
		project(by(v1.ClusterTrustBundleProjection{Name: &one}), by(v1.ClusterTrustBundleProjection{SignerName: &other}), v1.VolumeProjection{Secret: &v1.SecretProjection{}}),
	}}}
	bundles, signers := TrustReferences(pod)
	if !slices.Equal(bundles, []string{one}) || !slices.Equal(signers, []string{signer}) {
		t.Errorf("got %v and %v", bundles, signers)
	}
}
