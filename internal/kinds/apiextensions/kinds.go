// Package apiextensions describes the kind of apiextensions.k8s.io: the
// CustomResourceDefinition. What a definition defines is served by
// apiserver/crd.
package apiextensions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var v1 = apiextensionsv1.SchemeGroupVersion

// Kinds of the group.
func Kinds() []*kinds.Kind { return []*kinds.Kind{customResourceDefinition()} }
