package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func subjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "subjectaccessreviews"}, Kind: "SubjectAccessReview", Singular: "subjectaccessreview",
		Versions: []kinds.Version{strategy.Unlisted[authorizationv1.SubjectAccessReview](v1, nil)},
		NoVerbs:  strategy.OnlyCreate(),
	}
}
