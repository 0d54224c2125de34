package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func tokenReview() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "tokenreviews"}, Kind: "TokenReview", Singular: "tokenreview",
		Versions: []kinds.Version{strategy.Unlisted[authenticationv1.TokenReview](v1, nil)},
		NoVerbs:  strategy.OnlyCreate(),
	}
}
