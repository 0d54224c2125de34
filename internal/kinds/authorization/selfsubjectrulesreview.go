package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func selfSubjectRulesReview() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "selfsubjectrulesreviews"}, Kind: "SelfSubjectRulesReview", Singular: "selfsubjectrulesreview",
		Versions: []kinds.Version{strategy.Unlisted[authorizationv1.SelfSubjectRulesReview](v1, nil)},
		NoVerbs:  strategy.OnlyCreate(),
	}
}
