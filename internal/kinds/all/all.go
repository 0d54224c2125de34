// Package all lists every built-in kind. Nothing is built before the first
// call of Kinds.
package all

import (
	"slices"
	"sync"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/admissionregistration"
	"github.com/setpoint-project/setpoint/internal/kinds/apiextensions"
	"github.com/setpoint-project/setpoint/internal/kinds/apiregistration"
	"github.com/setpoint-project/setpoint/internal/kinds/apps"
	"github.com/setpoint-project/setpoint/internal/kinds/authentication"
	"github.com/setpoint-project/setpoint/internal/kinds/authorization"
	"github.com/setpoint-project/setpoint/internal/kinds/autoscaling"
	"github.com/setpoint-project/setpoint/internal/kinds/batch"
	"github.com/setpoint-project/setpoint/internal/kinds/certificates"
	"github.com/setpoint-project/setpoint/internal/kinds/coordination"
	"github.com/setpoint-project/setpoint/internal/kinds/core"
	"github.com/setpoint-project/setpoint/internal/kinds/discovery"
	"github.com/setpoint-project/setpoint/internal/kinds/flowcontrol"
	"github.com/setpoint-project/setpoint/internal/kinds/networking"
	"github.com/setpoint-project/setpoint/internal/kinds/node"
	"github.com/setpoint-project/setpoint/internal/kinds/policy"
	"github.com/setpoint-project/setpoint/internal/kinds/rbac"
	"github.com/setpoint-project/setpoint/internal/kinds/resource"
	"github.com/setpoint-project/setpoint/internal/kinds/scheduling"
	"github.com/setpoint-project/setpoint/internal/kinds/storage"
	"github.com/setpoint-project/setpoint/internal/kinds/storagemigration"
)

var once = sync.OnceValue(func() []*kinds.Kind {
	return slices.Concat(
		core.Kinds(), apps.Kinds(), authentication.Kinds(), authorization.Kinds(), autoscaling.Kinds(),
		batch.Kinds(), certificates.Kinds(), networking.Kinds(), policy.Kinds(), rbac.Kinds(),
		storage.Kinds(), admissionregistration.Kinds(), scheduling.Kinds(), coordination.Kinds(),
		node.Kinds(), apiextensions.Kinds(), apiregistration.Kinds(), discovery.Kinds(), resource.Kinds(), flowcontrol.Kinds(), storagemigration.Kinds(),
	)
})

// Kinds are all built-in kinds. The list is the caller's; the kinds are shared
// and must not be changed.
func Kinds() []*kinds.Kind { return slices.Clone(once()) }
