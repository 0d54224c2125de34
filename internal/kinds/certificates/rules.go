package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds/check"
)

// Rules that kinds of this group share.
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/

// maxSignerName is a namespace, a domain and a path.
const maxSignerName = 571

func validateSignerName(c *check.Errors, path *field.Path, name string) {
	if name == "" {
		c.Required(path, "", "signerName must be provided")
		return
	}
	parts := strings.Split(name, "/")
	if len(parts) != 2 {
		c.Invalid(path, "", name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	for i, part := range parts {
		for _, msg := range validation.IsDNS1123Subdomain(part) {
			c.Invalid(path, "", part, fmt.Sprintf("validating label %q: %s", part, msg))
		}
		if i == 0 && !strings.Contains(part, ".") {
			c.Invalid(path, "", part, "should be a domain with at least two segments separated by dots")
		}
	}
	if len(name) > maxSignerName {
		c.TooLong(path, "", maxSignerName)
	}
}
