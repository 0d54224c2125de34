package apitest

import (
	"net/http"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
)

// Behind makes a server behind whose front door another serves the kinds of
// apps/v1. list, when not nil, changes what the first says of them.
func Behind(t testing.TB, list func([]client.ResourceInfo) []client.ResourceInfo) (front, behind *Harness) {
	t.Helper()
	behind = New(t, Options{})
	apps := func(k *kinds.Kind) bool { return k.Resource.Group == "apps" }
	var infos []client.ResourceInfo
	for _, k := range all.Kinds() {
		if apps(k) {
			infos = append(infos, client.ResourceInfo{
				Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: k.Resource.Resource}, Kind: k.Kind, Namespaced: k.Namespaced,
				Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	return New(t, Options{
		Kinds: slices.DeleteFunc(all.Kinds(), apps),
		Extension: func(group, version string) http.Handler {
			if group == "apps" && version == "v1" {
				return behind.Server
			}
			return nil
		},
		Foreign: func() []client.ResourceInfo {
			if list != nil {
				return list(slices.Clone(infos))
			}
			return infos
		},
	}), behind
}
