package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func clusterTrustBundle() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clustertrustbundles"}, Kind: "ClusterTrustBundle", Singular: "clustertrustbundle",
		StoragePrefix: "/registry/clustertrustbundles/",
		Versions:      []kinds.Version{strategy.Version[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](v1, nil)},
		// The name depends on the signer, see validateTrustBundle.
		ValidateName: pathvalidation.ValidatePathSegmentName,
		Validate:     strategy.Validate(validateTrustBundle),
		ValidateUpdate: strategy.ValidateUpdate(func(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
			c := check.Errors{List: validateTrustBundle(b)}
			if b.Spec.SignerName != old.Spec.SignerName {
				c.Immutable(field.NewPath("spec"), "signerName", b.Spec.SignerName)
			}
			return c.List
		}),
		SelectableFields: strategy.Fields(func(b *certificatesv1.ClusterTrustBundle) fields.Set {
			return fields.Set{"spec.signerName": b.Spec.SignerName}
		}),
		FieldNames: []string{"spec.signerName"},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("SignerName", "string", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"], func(o *certificatesv1.ClusterTrustBundle) any { return o.Spec.SignerName }),
		},
	}
}

// maxTrustBundle is the size of a bundle in bytes.
const maxTrustBundle = 1 << 20

func validateTrustBundle(b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var c check.Errors
	meta, name := field.NewPath("metadata"), b.Name
	if signer := b.Spec.SignerName; signer != "" {
		prefix := strings.ReplaceAll(signer, "/", ":") + ":"
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			c.Invalid(meta, "name", name, fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix))
		} else {
			c.Text(meta, "name", name, validation.IsDNS1123Subdomain(rest))
		}
		validateSignerName(&c, field.NewPath("spec", "signerName"), signer)
	} else if strings.Contains(name, ":") {
		c.Invalid(meta, "name", name, "ClusterTrustBundle without signer name must not have \":\" in its name")
	} else {
		c.Subdomain(meta, "name", name)
	}
	validateAnchors(&c, b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))
	return c.List
}

func validateAnchors(c *check.Errors, text string, path *field.Path) {
	if len(text) > maxTrustBundle {
		c.TooLong(path, "", maxTrustBundle)
		return
	}
	wrong := func(format string, args ...any) { c.Invalid(path, "", "<value omitted>", fmt.Sprintf(format, args...)) }
	seen := map[string]int{}
	for i, rest := 0, []byte(text); ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if i == 0 {
				wrong("at least one trust anchor must be provided")
			}
			return
		}
		if block.Type != "CERTIFICATE" {
			wrong("entry %d has bad block type: %v", i, block.Type)
			return
		}
		if len(block.Headers) > 0 {
			wrong("entry %d has PEM block headers", i)
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			wrong("entry %d does not parse as X.509", i)
			return
		}
		if first, ok := seen[string(block.Bytes)]; ok {
			wrong("duplicate trust anchor (indices [%d %d])", first, i)
			return
		}
		seen[string(block.Bytes)] = i
	}
}
