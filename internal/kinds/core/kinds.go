// Package core describes the kinds of the core group, a file a kind.
//
// Kinds makes them anew at every call; what it returns is not changed afterwards
// and safe for concurrent use.
package core

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

var v1 = schema.GroupVersion{Group: "", Version: "v1"}

// Kinds of the group.
func Kinds() []*kinds.Kind {
	return []*kinds.Kind{
		binding(),
		componentStatus(),
		configMap(),
		endpoints(),
		event(),
		limitRange(),
		namespace(),
		node(),
		persistentVolumeClaim(),
		persistentVolume(),
		pod(),
		podTemplate(),
		replicationController(),
		resourceQuota(),
		secret(),
		serviceAccount(),
		service(),
	}
}
