package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

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
		// A request says what its sender asked for; it cannot be rewritten.
		PrepareUpdate: strategy.PrepareUpdate(func(r, old *certificatesv1.CertificateSigningRequest) {
			r.Spec, r.Status = old.Spec, old.Status
		}),
		ValidateName: pathvalidation.ValidatePathSegmentName,
		Validate:     strategy.Validate(validateRequest),
		Subresources: map[string]*kinds.Subresource{
			"approval": {
				Verbs: strategy.View(),
				PrepareUpdate: strategy.PrepareUpdate(func(r, old *certificatesv1.CertificateSigningRequest) {
					conditions := r.Status.Conditions
					r.Spec, r.Status = old.Spec, old.Status
					r.Status.Conditions = conditions
					stampConditions(conditions, old.Status.Conditions)
				}),
				ValidateUpdate: strategy.ValidateUpdate(validateApproval),
			},
			"status": {
				Verbs: strategy.View(),
				PrepareUpdate: strategy.PrepareUpdate(func(r, old *certificatesv1.CertificateSigningRequest) {
					r.Spec = old.Spec
					stampConditions(r.Status.Conditions, old.Status.Conditions)
				}),
				ValidateUpdate: strategy.ValidateUpdate(validateIssue),
			},
		},
		SelectableFields: strategy.Fields(func(r *certificatesv1.CertificateSigningRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName}
		}),
		FieldNames: []string{"spec.signerName"},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Age(),
			strategy.Column("SignerName", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["signerName"], func(o *certificatesv1.CertificateSigningRequest) any { return o.Spec.SignerName }),
			strategy.Column("Requestor", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["username"], func(o *certificatesv1.CertificateSigningRequest) any { return o.Spec.Username }),
			strategy.Column("RequestedDuration", "string", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["expirationSeconds"], func(o *certificatesv1.CertificateSigningRequest) any {
				if o.Spec.ExpirationSeconds == nil {
					return "<none>"
				}
				return duration.HumanDuration(time.Duration(*o.Spec.ExpirationSeconds) * time.Second)
			}),
			strategy.Column("Condition", "string", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"], func(o *certificatesv1.CertificateSigningRequest) any { return condition(&o.Status) }),
		},
	}
}

// condition sums up where a request stands.
func condition(s *certificatesv1.CertificateSigningRequestStatus) string {
	var approved, denied, failed bool
	for _, c := range s.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied:
			denied = true
		case certificatesv1.CertificateFailed:
			failed = true
		}
	}
	text := "Pending"
	switch {
	case denied:
		text = "Denied"
	case approved:
		text = "Approved"
	}
	if failed {
		text += ",Failed"
	}
	if len(s.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}
