package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podCertificateRequest() *kinds.Kind {
	split := strategy.Of[certificatesv1.PodCertificateRequest]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "podcertificaterequests"}, Kind: "PodCertificateRequest", Singular: "podcertificaterequest",
		Namespaced:    true,
		StoragePrefix: "/registry/podcertificaterequests/",
		Versions:      []kinds.Version{strategy.Version[certificatesv1.PodCertificateRequest, certificatesv1.PodCertificateRequestList](v1, nil)},
		PrepareCreate: split.PrepareCreate,
		PrepareUpdate: split.PrepareUpdate,
		Validate:      strategy.Validate(validatePodRequest),
		ValidateUpdate: strategy.ValidateUpdate(func(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
			var c check.Errors
			if !apiequality.Semantic.DeepEqual(r.Spec, old.Spec) {
				c.Immutable(field.NewPath("spec"), "", r.Spec)
			}
			return c.List
		}),
		Subresources: map[string]*kinds.Subresource{
			"status": {
				Verbs: strategy.View(), PrepareUpdate: split.PrepareStatusOnly, ValidateUpdate: strategy.ValidateUpdate(validatePodRequestStatus),
			},
		},
		SelectableFields: strategy.Fields(func(r *certificatesv1.PodCertificateRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName)}
		}),
		FieldNames: []string{"spec.signerName", "spec.podName", "spec.nodeName"},
		Columns:    strategy.NameAge(),
	}
}

// How long a pod's certificate may be good, in seconds.
// Lives of certificates in seconds, and the most that a request may hold.
const (
	minLife     = 3600
	maxLife     = 91 * 24 * 3600
	maxOwnLife  = 24 * 3600 // of the cluster's own signers
	maxUID      = 128
	maxStubSize = 10 << 10
)

func validatePodRequest(r *certificatesv1.PodCertificateRequest) field.ErrorList {
	var c check.Errors
	spec, path := &r.Spec, field.NewPath("spec")
	validateSignerName(&c, path.Child("signerName"), spec.SignerName)
	validateUserAnnotations(&c, path.Child("unverifiedUserAnnotations"), spec.UnverifiedUserAnnotations)
	c.Subdomain(path, "podName", spec.PodName)
	validateUID(&c, path, "podUID", spec.PodUID)
	c.Subdomain(path, "serviceAccountName", spec.ServiceAccountName)
	validateUID(&c, path, "serviceAccountUID", spec.ServiceAccountUID)
	c.Subdomain(path, "nodeName", string(spec.NodeName))
	validateUID(&c, path, "nodeUID", spec.NodeUID)
	longest := int32(maxLife)
	if host, _, _ := strings.Cut(spec.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
		longest = maxOwnLife
	}
	switch n := spec.MaxExpirationSeconds; {
	case n == nil:
		c.Required(path, "maxExpirationSeconds", "must be set")
	case *n < minLife || *n > longest:
		c.Invalid(path, "maxExpirationSeconds", *n, fmt.Sprintf("must be in the range [%d, %d]", minLife, longest))
	}
	if len(spec.StubPKCS10Request) == 0 {
		// The other two are served in versions before v1 only; clients know the text.
		c.Invalid(path, "", field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
	} else {
		validateStub(&c, path, spec.StubPKCS10Request)
	}
	return c.List
}

func validateUID(c *check.Errors, path *field.Path, name string, uid types.UID) {
	if uid == "" {
		c.Invalid(path, name, uid, "must not be empty")
	} else if len(uid) > maxUID {
		c.TooLong(path, name, maxUID)
	}
}

func validateUserAnnotations(c *check.Errors, path *field.Path, annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		c.Add(validation.IsDomainPrefixedKey(path, strings.ToLower(key)))
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		c.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB)
	}
}

// validateStub holds a request to what proves that its sender has the key, and
// to keys that are strong enough. What else stands in it is up to the signer.
func validateStub(c *check.Errors, path *field.Path, der []byte) {
	const name = "stubPKCS10Request"
	if len(der) > maxStubSize {
		c.TooLong(path, name, maxStubSize)
		return
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		c.Invalid(path, name, field.OmitValueType{}, "must be a valid PKCS#10 CSR")
		return
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P224() {
			c.Invalid(path, name, "curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
			return
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			c.Invalid(path, name, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
			return
		}
	default:
		c.Invalid(path, name, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
		return
	}
	if request.CheckSignature() != nil {
		c.Invalid(path, name, field.OmitValueType{}, "invalid signature")
	}
}
