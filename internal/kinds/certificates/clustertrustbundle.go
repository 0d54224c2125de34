package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func clusterTrustBundle() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "clustertrustbundles"}, Kind: "ClusterTrustBundle", Singular: "clustertrustbundle",
		StoragePrefix: "/registry/clustertrustbundles/",
		Versions:      []kinds.Version{strategy.Version[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](v1, nil)},
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
