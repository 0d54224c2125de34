package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// front is an API server that knows one token, and lets its owner read metrics
// of the node n.
type front struct {
	client.Interface
	asked []string
	away  bool
}

func (f *front) Create(_ context.Context, _ client.Resource, obj client.Object, _ ...string) (client.Object, error) {
	if f.away {
		return nil, errors.New("no route to host")
	}
	switch o := obj.DeepCopyObject().(type) {
	case *authenticationv1.TokenReview:
		f.asked = append(f.asked, "token")
		if o.Spec.Token == "good" {
			o.Status.Authenticated, o.Status.User = true, authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:metrics-server", Groups: []string{"system:serviceaccounts"}}
		}
		return o, nil
	case *authorizationv1.SubjectAccessReview:
		a := o.Spec.ResourceAttributes
		f.asked = append(f.asked, a.Verb+" "+a.Resource+"/"+a.Subresource)
		o.Status.Allowed = a.Name == "n" && a.Verb == "get" && a.Subresource == "metrics" && slices.Contains(o.Spec.Groups, "system:serviceaccounts")
		return o, nil
	}
	return nil, fmt.Errorf("a %T is created", obj)
}

func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &front{}
		s := &Server{opts: Options{Clients: []string{DefaultClient}}, access: newAccess(f, "n")}
		h := s.admitted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(method, path, token string, cert ...string) (int, string) {
			r := httptest.NewRequest(method, path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			r.TLS = nil
			if len(cert) > 0 {
				r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: cert[0], Organization: cert[1:]}}}}}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		for _, tc := range []struct {
			method, path, token string
			cert                []string
			code                int
			asks                string
		}{
			{"GET", "/pods", "", nil, 401, ""},
			{"GET", "/pods", "", []string{DefaultClient}, 200, ""},
			{"POST", "/run/a/b/c", "", []string{"admin", "system:masters"}, 200, ""},
			{"GET", "/metrics/resource", "", []string{"jane", "staff"}, 403, "get nodes/metrics"},
			{"GET", "/metrics/resource", "", []string{"scraper", "system:serviceaccounts"}, 200, "get nodes/metrics"},
			{"GET", "/metrics/resource", "bad", nil, 401, "token"},
			{"GET", "/metrics/resource", "good", nil, 200, "token, get nodes/metrics"},
			{"GET", "/metrics/cadvisor", "good", nil, 200, ""}, // remembered
			{"GET", "/stats/summary", "good", nil, 403, "get nodes/stats"},
			{"GET", "/pods", "good", nil, 403, "get nodes/pods, get nodes/proxy"},
			{"POST", "/exec/a/b/c", "good", nil, 403, "create nodes/proxy"},
			{"GET", "/exec/a/b/c", "good", nil, 403, ""}, // get nodes/proxy was asked before
			{"GET", "/metrics/resource", "bad", nil, 401, ""},
		} {
			f.asked = nil
			code, body := ask(tc.method, tc.path, tc.token, tc.cert...)
			if got := strings.Join(f.asked, ", "); code != tc.code || got != tc.asks {
				t.Errorf("%s %s as %q %v: %d, asking %q; want %d, %q (%s)", tc.method, tc.path, tc.token, tc.cert, code, got, tc.code, tc.asks, body)
			}
		}
		if _, body := ask("GET", "/stats/summary", "good"); !strings.HasPrefix(body, "Forbidden (user=system:serviceaccount:kube-system:metrics-server, verb=get, resource=nodes, subresource(s)=[stats])") {
			t.Errorf("a refusal says %q", body)
		}
		// What was said holds for a while, also with the API server away.
		f.away = true
		if code, _ := ask("GET", "/metrics/resource", "good"); code != 200 {
			t.Errorf("with the API server away: %d", code)
		}
		time.Sleep(knownFor + time.Second)
		if code, _ := ask("GET", "/metrics/resource", "good"); code != 500 {
			t.Errorf("after a while: %d", code)
		}
		f.away = false
		if code, _ := ask("GET", "/metrics/resource", "good"); code != 200 {
			t.Errorf("with the API server back: %d", code)
		}
	})
}
