// Package autoscaling describes the kinds of the API group autoscaling, a file
// a kind.
//
// Kinds makes them anew at every call; what it returns is not changed afterwards
// and safe for concurrent use.
package autoscaling

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var (
	v1 = schema.GroupVersion{Group: "autoscaling", Version: "v1"}
	v2 = schema.GroupVersion{Group: "autoscaling", Version: "v2"}
)

// Kinds of the group.
func Kinds() []*kinds.Kind { return []*kinds.Kind{horizontalPodAutoscaler()} }
