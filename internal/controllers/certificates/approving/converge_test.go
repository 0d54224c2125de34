package approving_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/tokens"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/approving"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/requesttest"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
)

// bound decides reviews by the names of bindings alone: "GROUP|SUBRESOURCE"
// lets a group ask, with "_" for the colons.
type bound struct{ views func() client.View }

func (b bound) Authorize(_ context.Context, a *authz.Attributes) (bool, string) {
	if a.Resource != "certificatesigningrequests" || a.Verb != "create" || a.Group != "certificates.k8s.io" {
		return true, "" // the loop's own requests
	}
	for _, obj := range b.views().List("") {
		group, sub, _ := strings.Cut(obj.(*rbacv1.ClusterRoleBinding).Subjects[0].Name, "|")
		if a.User.InGroup(group) && a.Subresource == sub {
			return true, ""
		}
	}
	return false, ""
}

func binding(name, group, sub string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group + "|" + sub}},
	}
}

var bindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")

func TestConverges(t *testing.T) {
	var views func() client.View // of the play that runs
	controllertest.Run(t, controllertest.Case{
		Server: apitest.Options{Subresources: map[string]apiserver.SubresourceHandler{
			"subjectaccessreviews.authorization.k8s.io": (&tokens.Access{Authorizer: bound{func() client.View { return views() }}}).ServeSubject,
		}},
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{approving.New(o)}
		},
		Start: func(w *controllertest.World) {
			views = func() client.View { return w.Client.View(bindings, client.ViewOptions{}) }
			w.Create(bindings, binding("renew", "system:nodes", "selfnodeclient"))
			key := requesttest.Key(w.TB)
			for i := range 1 + w.Rand.IntN(3) {
				w.Create(client.SigningRequests, requesttest.New(w.TB, fmt.Sprint("self-", i), requesttest.Node(fmt.Sprint("n", i)), key))
			}
			joins := requesttest.Node("new")
			joins.User, joins.Groups = "system:bootstrap:abcdef", []string{"system:bootstrappers"}
			w.Create(client.SigningRequests, requesttest.New(w.TB, "joins", joins, key))
			posing := requesttest.Node("n1")
			posing.User = "system:node:n2" // a node may not be another
			w.Create(client.SigningRequests, requesttest.New(w.TB, "posing", posing, key))
			wrong := requesttest.Node("n1")
			wrong.CSR.Subject.Organization = []string{"system:masters"}
			w.Create(client.SigningRequests, requesttest.New(w.TB, "wrong", wrong, key))
			w.Create(client.SigningRequests, requesttest.New(w.TB, "user", requesttest.User("jane"), key))
			w.Create(client.SigningRequests, requesttest.New(w.TB, "denied", requesttest.Node("n1"), key))
			w.Edit(client.SigningRequests, "", "denied", func(obj client.Object) {
				r := obj.(*certificatesv1.CertificateSigningRequest)
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "No"}}
			}, "approval")
		},
		Meanwhile: func(w *controllertest.World) {
			// Who may not may later: no request is forgotten.
			w.Create(bindings, binding("join", "system:bootstrappers", "nodeclient"))
		},
		End: func(w *controllertest.World) string { return w.Lines(client.SigningRequests, line) },
		Check: func(w *controllertest.World) error {
			for name, want := range map[string]string{
				"self-0": "Approved AutoApproved Auto approving self kubelet client certificate after SubjectAccessReview.",
				"joins":  "Approved AutoApproved Auto approving kubelet client certificate after SubjectAccessReview.",
				"posing": "", "wrong": "", "user": "", "denied": "Denied No ",
			} {
				if got, want := line(w.Get(client.SigningRequests, "", name)), strings.TrimRight(name+": "+want, " "); strings.TrimRight(got, " ") != want {
					return errors.New("got " + got + ", want " + want)
				}
			}
			return nil
		},
	})
}

func line(obj client.Object) string {
	text := obj.GetName() + ":"
	for _, c := range obj.(*certificatesv1.CertificateSigningRequest).Status.Conditions {
		text += fmt.Sprint(" ", c.Type, " ", c.Reason, " ", c.Message)
	}
	return text
}
