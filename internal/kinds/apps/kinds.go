// Package apps describes the kinds of the API group apps, a file a kind.
//
// Kinds makes them anew at every call; what it returns is not changed afterwards
// and safe for concurrent use.
package apps

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var v1 = schema.GroupVersion{Group: "apps", Version: "v1"}

// Kinds of the group.
func Kinds() []*kinds.Kind {
	return []*kinds.Kind{
		controllerRevision(),
		daemonSet(),
		deployment(),
		replicaSet(),
		statefulSet(),
	}
}
