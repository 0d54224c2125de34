package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

const apitestUser = "apitest"

// notary lets admin act as anybody and clerk as the users of its list, and
// writes down what it was asked and who at last reads.
type notary struct {
	asked  []string
	reader *authn.User
}

func (n *notary) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	if a.User.Name == apitestUser { // the loops of the harness, at any time
		return true, ""
	}
	if a.Verb != "impersonate" {
		n.reader = a.User
		return true, ""
	}
	resource := strings.Trim(a.Resource+"/"+a.Subresource, "/")
	n.asked = append(n.asked, fmt.Sprintf("%s %s.%s %s/%s", a.User.Name, resource, a.Group, a.Namespace, a.Name))
	return a.User.Name == "admin" || a.Resource == "users" && a.Name == "jane", ""
}

func TestImpersonate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers []string
		code    int
		body    string   // of a refusal
		asked   []string // in any order
		as      *authn.User
	}{
		{"nobody asks", []string{"X-User: clerk"}, 200, "", nil, &authn.User{Name: "clerk"}},
		{"a user", []string{"X-User: clerk", "Impersonate-User: jane"}, 200, "",
			[]string{"clerk users. /jane"}, &authn.User{Name: "jane", Groups: []string{"system:authenticated"}}},
		{"a user one may not be", []string{"X-User: clerk", "Impersonate-User: root"}, 403,
			`users \"root\" is forbidden: User \"clerk\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope`,
			[]string{"clerk users. /root"}, nil},
		{"a group one may not have", []string{"X-User: clerk", "Impersonate-User: jane", "Impersonate-Group: system:masters"}, 403,
			`groups \"system:masters\" is forbidden`, []string{"clerk users. /jane", "clerk groups. /system:masters"}, nil},
		{"all there is", []string{"X-User: admin", "Impersonate-User: jane", "Impersonate-Group: a", "Impersonate-Group: b", "Impersonate-Uid: 7",
			"Impersonate-Extra-Example.com%2fScope: x", "Impersonate-Extra-Example.com%2fScope: y"}, 200, "",
			[]string{"admin users. /jane", "admin groups. /a", "admin groups. /b", "admin uids.authentication.k8s.io /7",
				"admin userextras/example.com/scope.authentication.k8s.io /x", "admin userextras/example.com/scope.authentication.k8s.io /y"},
			&authn.User{Name: "jane", UID: "7", Groups: []string{"a", "b", "system:authenticated"}, Extra: map[string][]string{"example.com/scope": {"x", "y"}}}},
		{"a service account", []string{"X-User: admin", "Impersonate-User: system:serviceaccount:ns:sa"}, 200, "",
			[]string{"admin serviceaccounts. ns/sa"},
			&authn.User{Name: "system:serviceaccount:ns:sa", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}}},
		{"nobody at all", []string{"X-User: admin", "Impersonate-User: system:anonymous"}, 200, "",
			[]string{"admin users. /system:anonymous"}, &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		{"a group without a user", []string{"X-User: admin", "Impersonate-Group: a"}, 500, "without impersonating a user", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := &notary{}
			w := newWeb(t, apitest.New(t, apitest.Options{HTTP: true, Authenticators: []authn.Authenticator{byHeader{}}, Authorizer: n}))
			resp, body := w.do("GET", cmPath, "", tc.headers...)
			if resp.StatusCode != tc.code || !strings.Contains(body, tc.body) {
				t.Errorf("got %d: %s", resp.StatusCode, body)
			}
			slices.Sort(n.asked)
			slices.Sort(tc.asked)
			if d := cmp.Diff(tc.asked, n.asked); d != "" {
				t.Error("asked:", d)
			}
			if d := cmp.Diff(tc.as, n.reader); d != "" {
				t.Error("read as:", d)
			}
		})
	}
}
