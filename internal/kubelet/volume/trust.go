package volume

import (
	"bytes"
	"encoding/pem"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// trust is a file of the certificates that pods may trust: those of one
// bundle, or of all of a signer's that labels choose. Where nothing is found
// and that is allowed, the file is empty.
// https://kubernetes.io/docs/concepts/storage/projected-volumes/#clustertrustbundle
func (b *builder) trust(p *v1.ClusterTrustBundleProjection) error {
	var bundles []*certificatesv1.ClusterTrustBundle
	var err error
	switch {
	case p.Name != nil:
		var one *certificatesv1.ClusterTrustBundle
		if one, err = b.m.opts.Objects.TrustBundle(b.ctx, *p.Name); err == nil {
			bundles = append(bundles, one)
		}
	case p.SignerName != nil:
		bundles, err = b.signed(*p.SignerName, p.LabelSelector)
	default:
		err = fmt.Errorf("a clusterTrustBundle of projected volume %q names neither a bundle nor a signer", b.volume)
	}
	optional := p.Optional != nil && *p.Optional
	switch {
	case apierrors.IsNotFound(err) && optional:
	case err != nil:
		return err
	case len(bundles) == 0 && !optional:
		return fmt.Errorf("no ClusterTrustBundle of signer %q matches the labels that volume %q selects by", *p.SignerName, b.volume)
	}
	b.files[p.Path] = File{anchors(bundles), b.mode}
	return nil
}

// signed are a signer's bundles with these labels: an empty selector matches
// all, none at all matches nothing.
func (b *builder) signed(signer string, selector *metav1.LabelSelector) ([]*certificatesv1.ClusterTrustBundle, error) {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selector == nil {
		return nil, err
	}
	all, err := b.m.opts.Objects.TrustBundles(b.ctx, signer)
	if err != nil {
		return nil, err
	}
	var some []*certificatesv1.ClusterTrustBundle
	for _, one := range all {
		if matches.Matches(labels.Set(one.Labels)) {
			some = append(some, one)
		}
	}
	return some, nil
}

// anchors are the certificates of bundles, each once, and nothing of what
// stands between them.
func anchors(bundles []*certificatesv1.ClusterTrustBundle) []byte {
	out := bytes.Buffer{}
	seen := map[string]bool{}
	for _, bundle := range bundles {
		for block, rest := pem.Decode([]byte(bundle.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" || seen[string(block.Bytes)] {
				continue
			}
			seen[string(block.Bytes)] = true
			_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a buffer takes everything
		}
	}
	return out.Bytes()
}

// TrustReferences lists the trust bundles that a pod's volumes name, and the
// signers of whose bundles they choose.
func TrustReferences(pod *v1.Pod) (bundles, signers []string) {
	names, of := map[string]bool{}, map[string]bool{}
	for i := range pod.Spec.Volumes {
		p := pod.Spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			switch t := p.Sources[j].ClusterTrustBundle; {
			case t == nil:
			case t.Name != nil:
				names[*t.Name] = true
			case t.SignerName != nil && t.LabelSelector != nil:
				of[*t.SignerName] = true
			}
		}
	}
	return sorted(names), sorted(of)
}
