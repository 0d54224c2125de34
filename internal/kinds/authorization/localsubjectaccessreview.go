package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func localSubjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "localsubjectaccessreviews"}, Kind: "LocalSubjectAccessReview", Singular: "localsubjectaccessreview",
		Namespaced: true,
		Versions:   []kinds.Version{strategy.Unlisted[authorizationv1.LocalSubjectAccessReview](v1, nil)},
		NoVerbs:    strategy.OnlyCreate(),
	}
}
