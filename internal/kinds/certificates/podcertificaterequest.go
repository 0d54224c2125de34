package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func podCertificateRequest() *kinds.Kind {
	split := strategy.Of[certificatesv1.PodCertificateRequest]()
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "podcertificaterequests"}, Kind: "PodCertificateRequest", Singular: "podcertificaterequest",
		Namespaced:               true,
		StoragePrefix:            "/registry/podcertificaterequests/",
		Versions:                 []kinds.Version{strategy.Version[certificatesv1.PodCertificateRequest, certificatesv1.PodCertificateRequestList](v1, nil)},
		AllowUnconditionalUpdate: true,
		PrepareCreate:            split.PrepareCreate,
		PrepareUpdate:            split.PrepareUpdate,
		Subresources: map[string]*kinds.Subresource{
			"status": split.StatusOnly(),
		},
		Columns: strategy.NameAge(),
	}
}
