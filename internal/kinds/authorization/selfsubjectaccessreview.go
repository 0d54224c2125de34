package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func selfSubjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "selfsubjectaccessreviews"}, Kind: "SelfSubjectAccessReview", Singular: "selfsubjectaccessreview",
		Versions: []kinds.Version{strategy.Unlisted[authorizationv1.SelfSubjectAccessReview](v1, nil)},
		NoVerbs:  strategy.OnlyCreate(),
	}
}
