// Package certificates describes the kinds of the API group certificates.k8s.io, a file a kind.
//
// Kinds makes them anew at every call; what it returns is not changed afterwards
// and safe for concurrent use.
package certificates

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var v1 = schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"}

// Kinds of the group.
func Kinds() []*kinds.Kind {
	return []*kinds.Kind{
		certificateSigningRequest(),
		clusterTrustBundle(),
		podCertificateRequest(),
	}
}
