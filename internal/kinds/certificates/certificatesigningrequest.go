package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func certificateSigningRequest() *kinds.Kind {
	split := strategy.Of[certificatesv1.CertificateSigningRequest]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "certificatesigningrequests"}, Kind: "CertificateSigningRequest", Singular: "certificatesigningrequest",
		ShortNames:               []string{"csr"},
		StoragePrefix:            "/registry/certificatesigningrequests/",
		Versions:                 []kinds.Version{strategy.Version[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](v1, nil)},
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"approval": {Verbs: []string{"get", "patch", "update"}},
			"status":   split.Status(),
		},
		Columns: strategy.NameAge(),
	}
}
