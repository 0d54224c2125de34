package cluster

import (
	"context"
	"net/http"
	"strings"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// reporters lets each part of the cluster report its gaps under its own name.
// A rule of a role cannot say "one's own", so this stands beside the roles.
type reporters struct{}

// Authorize implements authz.Authorizer.
func (reporters) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	if a.IsResource || a.Verb != strings.ToLower(http.MethodPut) && a.Verb != strings.ToLower(http.MethodDelete) {
		return false, ""
	}
	key, ok := parseReportPath(a.Path)
	if !ok || key.user != a.User.Name {
		return false, ""
	}
	_, node := authz.NodeOf(a.User)
	return node || key.user == pki.ControllerManagerUser || key.user == pki.SchedulerUser, ""
}
