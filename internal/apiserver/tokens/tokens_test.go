package tokens

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
)

const issuer = "https://kubernetes.default.svc.cluster.local"

type world map[string]client.Object

func (w world) get(_ context.Context, res client.Resource, ns, name string) (client.Object, error) {
	if o := w[res.Resource+"/"+ns+"/"+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(res.GroupResource(), name)
}

func meta(ns, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(uid)}
}

func newWorld() world {
	return world{
		"serviceaccounts/web/app": &corev1.ServiceAccount{ObjectMeta: meta("web", "app", "sa1")},
		"pods/web/app-1":          &corev1.Pod{ObjectMeta: meta("web", "app-1", "p1"), Spec: corev1.PodSpec{ServiceAccountName: "app", NodeName: "n1"}},
		"pods/web/other":          &corev1.Pod{ObjectMeta: meta("web", "other", "p2"), Spec: corev1.PodSpec{ServiceAccountName: "else", NodeName: "n2"}},
		"pods/web/lost":           &corev1.Pod{ObjectMeta: meta("web", "lost", "p3"), Spec: corev1.PodSpec{ServiceAccountName: "app", NodeName: "n9"}},
		"secrets/web/s":           &corev1.Secret{ObjectMeta: meta("web", "s", "s1")},
		"nodes//n1":               &corev1.Node{ObjectMeta: meta("", "n1", "n1uid")},
	}
}

type fixture struct {
	w      world
	issuer *Issuer
	tokens *authn.ServiceAccounts
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := authn.NewSigner(issuer, key)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	sa, err := authn.NewServiceAccounts(issuer, []string{issuer}, []crypto.PublicKey{key.Public()}, w.get)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{w: w, tokens: sa, issuer: &Issuer{Signer: signer, Audiences: []string{issuer}, Get: w.get}}
}

var (
	admin = &authn.User{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}
	node1 = &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
)

func request(spec authenticationv1.TokenRequestSpec) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: spec}
}

func seconds(n int64) *int64 { return &n }

func ref(apiVersion, kind, name, uid string) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
}

// A token that is issued is one that the authenticator accepts.
func TestIssuedTokenAuthenticates(t *testing.T) {
	f := newFixture(t)
	out, err := f.issuer.Issue(t.Context(), node1, "web", "app", request(authenticationv1.TokenRequestSpec{
		ExpirationSeconds: seconds(600), BoundObjectRef: ref("v1", "Pod", "app-1", "p1"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(out.Status.ExpirationTimestamp.Time); left > 10*time.Minute || left < 9*time.Minute {
		t.Errorf("expires in %v, want 10 minutes", left)
	}
	user, _, err := f.tokens.AuthenticateToken(t.Context(), out.Status.Token, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user.Name != "system:serviceaccount:web:app" || user.UID != "sa1" {
		t.Errorf("user %+v", user)
	}
	want := map[string][]string{
		authn.ExtraPodName: {"app-1"}, authn.ExtraPodUID: {"p1"},
		authn.ExtraNodeName: {"n1"}, authn.ExtraNodeUID: {"n1uid"},
		authn.ExtraCredentialID: user.Extra[authn.ExtraCredentialID],
	}
	if diff := cmp.Diff(want, user.Extra); diff != "" {
		t.Errorf("extra (-want +got):\n%s", diff)
	}
	delete(f.w, "pods/web/app-1")
	if _, _, err := f.tokens.AuthenticateToken(t.Context(), out.Status.Token, nil); err == nil {
		t.Error("the token outlives its pod")
	}
}

func TestDefaultsOfARequest(t *testing.T) {
	f := newFixture(t)
	out, err := f.issuer.Issue(t.Context(), admin, "web", "app", request(authenticationv1.TokenRequestSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	if *out.Spec.ExpirationSeconds != 3600 || len(out.Spec.Audiences) != 1 || out.Spec.Audiences[0] != issuer || out.Name != "app" || out.Namespace != "web" {
		t.Errorf("got %+v %+v", out.ObjectMeta, out.Spec)
	}
}

func TestRefusedRequests(t *testing.T) {
	type spec = authenticationv1.TokenRequestSpec
	for _, tc := range []struct {
		name string
		user *authn.User
		of   string
		spec spec
		code int32
		msg  string
	}{
		{"too short", admin, "app", spec{ExpirationSeconds: seconds(599)}, 422, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"},
		{"too long", admin, "app", spec{ExpirationSeconds: seconds(1<<32 + 1)}, 422, "may not specify a duration larger than 2^32 seconds"},
		{"no account", admin, "none", spec{}, 404, `serviceaccounts "none" not found`},
		{"no pod", admin, "app", spec{BoundObjectRef: ref("v1", "Pod", "none", "")}, 404, `pods "none" not found`},
		{"another's pod", admin, "app", spec{BoundObjectRef: ref("v1", "Pod", "other", "")}, 400, `cannot bind token for serviceaccount "app" to pod running with different serviceaccount name.`},
		{"pod made anew", admin, "app", spec{BoundObjectRef: ref("v1", "Pod", "app-1", "p0")}, 409, "the UID in the bound object reference (p0) does not match"},
		{"kind", admin, "app", spec{BoundObjectRef: ref("apps/v1", "Deployment", "x", "")}, 400, "cannot bind token to object of type apps/v1, Kind=Deployment"},
		{"node without pod", node1, "app", spec{}, 403, "node requested token not bound to a pod"},
		{"node without uid", node1, "app", spec{BoundObjectRef: ref("v1", "Pod", "app-1", "")}, 403, "without a uid"},
		{"node for another's pod", node1, "app", spec{BoundObjectRef: ref("v1", "Pod", "lost", "p3")}, 403, "scheduled on a different node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newFixture(t).issuer.Issue(t.Context(), tc.user, "web", tc.of, request(tc.spec))
			status, ok := err.(apierrors.APIStatus)
			if !ok {
				t.Fatalf("got %v, want a status", err)
			}
			if got := status.Status(); got.Code != tc.code || !strings.Contains(got.Message, tc.msg) {
				t.Errorf("got %d %q, want %d %q", got.Code, got.Message, tc.code, tc.msg)
			}
		})
	}
}

func TestOtherBindings(t *testing.T) {
	f := newFixture(t)
	for _, b := range []*authenticationv1.BoundObjectReference{ref("v1", "Secret", "s", "s1"), ref("v1", "Node", "n1", ""), ref("v1", "Pod", "lost", "")} {
		out, err := f.issuer.Issue(t.Context(), admin, "web", "app", request(authenticationv1.TokenRequestSpec{BoundObjectRef: b}))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.tokens.AuthenticateToken(t.Context(), out.Status.Token, nil); err != nil {
			t.Errorf("bound to %s: %v", b.Kind, err)
		}
	}
}

// post sends obj through a handler and returns the answer's status and body.
func post(t *testing.T, h func(http.ResponseWriter, *http.Request, *authz.Attributes), a *authz.Attributes, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	if a.Verb == "" {
		a.Verb = "create"
	}
	h(w, r, a)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, code int) *T {
	t.Helper()
	if w.Code != code {
		t.Fatalf("%d %s, want %d", w.Code, w.Body, code)
	}
	out := new(T)
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestServeToken(t *testing.T) {
	f := newFixture(t)
	at := func() *authz.Attributes { return &authz.Attributes{User: admin, Namespace: "web", Name: "app"} }
	got := decode[authenticationv1.TokenRequest](t, post(t, f.issuer.ServeToken, at(), `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"audiences":["vault"],"expirationSeconds":700}}`), 201)
	if got.Kind != "TokenRequest" || got.Status.Token == "" || got.Spec.Audiences[0] != "vault" {
		t.Errorf("got %+v", got)
	}
	for _, tc := range []struct {
		body string
		code int
		msg  string
	}{
		{`{"metadata":{"name":"x"}}`, 400, "does not match the name on the URL"},
		{`{"metadata":{"namespace":"x"}}`, 400, "does not match the namespace"},
		{`{"kind":"Pod","apiVersion":"v1"}`, 400, "must be of type TokenRequest"},
		{`{`, 400, "json"},
		{`{"spec":{"expirationSeconds":"x"}}`, 400, "cannot be handled as a TokenRequest"},
		{`{"spec":{"expirationSeconds":60}}`, 422, "10 minutes"},
	} {
		s := decode[metav1.Status](t, post(t, f.issuer.ServeToken, at(), tc.body), tc.code)
		if s.Kind != "Status" || !strings.Contains(s.Message, tc.msg) {
			t.Errorf("%s: %q, want %q", tc.body, s.Message, tc.msg)
		}
	}
	decode[metav1.Status](t, post(t, f.issuer.ServeToken, at(), "x", "Content-Type", "text/plain"), 415)
	decode[metav1.Status](t, post(t, f.issuer.ServeToken, at(), strings.Repeat(" ", maxBody+1)), 413)
	decode[metav1.Status](t, post(t, f.issuer.ServeToken, &authz.Attributes{User: admin, Verb: "get"}, ""), 405)
}

func TestProtobufAndYAML(t *testing.T) {
	f := newFixture(t)
	raw, err := request(authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(900)}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	w := post(t, f.issuer.ServeToken, &authz.Attributes{User: admin, Namespace: "web", Name: "app"}, "k8s\x00"+string(body),
		"Content-Type", "application/vnd.kubernetes.protobuf", "Accept", "application/vnd.kubernetes.protobuf,application/json")
	answer, ok := bytes.CutPrefix(w.Body.Bytes(), []byte("k8s\x00"))
	var unknown runtime.Unknown
	var got authenticationv1.TokenRequest
	if !ok || unknown.Unmarshal(answer) != nil || got.Unmarshal(unknown.Raw) != nil {
		t.Fatalf("%d: no protobuf in %.40q", w.Code, w.Body)
	}
	if unknown.Kind != "TokenRequest" || got.Status.Token == "" || *got.Spec.ExpirationSeconds != 900 {
		t.Errorf("got %s %+v", unknown.Kind, got.Spec)
	}
	w = post(t, f.issuer.ServeToken, &authz.Attributes{User: admin, Namespace: "web", Name: "app"}, "spec:\n  expirationSeconds: 901\n",
		"Content-Type", "application/yaml", "Accept", "application/yaml")
	if w.Code != 201 || !strings.Contains(w.Body.String(), "expirationSeconds: 901") {
		t.Errorf("yaml: %d %s", w.Code, w.Body)
	}
	post(t, f.issuer.ServeToken, &authz.Attributes{User: admin}, "not protobuf", "Content-Type", "application/vnd.kubernetes.protobuf")
}

// TestNotAcceptable: who takes nothing but a table, metadata or a type that we
// do not write is told so; who would take plain JSON as well gets that.
func TestNotAcceptable(t *testing.T) {
	const meta = ";v=v1;g=meta.k8s.io"
	v, u := &Reviews{}, &authz.Attributes{User: admin}
	for accept, want := range map[string]int{
		"application/json;as=Table" + meta:                 406,
		"application/json;as=PartialObjectMetadata" + meta: 406,
		"text/html": 406,
		"application/json;as=Table" + meta + ",application/json": 201,
		"text/html,*/*;q=0.8": 201,
		"application/json;as=Table" + meta + ",application/*": 201,
		"": 201,
		"application/vnd.kubernetes.protobuf;as=Table,application/yaml;": 201,
	} {
		w := post(t, v.ServeSelf, u, "{}", "Accept", accept)
		if w.Code != want {
			t.Errorf("%q: got %d %s, want %d", accept, w.Code, w.Body, want)
		}
		if want != 406 {
			continue
		}
		if s := decode[metav1.Status](t, w, 406); s.Reason != metav1.StatusReasonNotAcceptable {
			t.Errorf("%q: reason %q", accept, s.Reason)
		}
	}
}

func TestTokenReview(t *testing.T) {
	f := newFixture(t)
	v := &Reviews{Tokens: f.tokens, Audiences: []string{issuer}}
	out, err := f.issuer.Issue(t.Context(), admin, "web", "app", request(authenticationv1.TokenRequestSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: out.Status.Token}})
	got := decode[authenticationv1.TokenReview](t, post(t, v.ServeToken, &authz.Attributes{User: admin}, string(body)), 201)
	if !got.Status.Authenticated || got.Status.User.Username != "system:serviceaccount:web:app" || len(got.Status.Audiences) != 1 {
		t.Errorf("got %+v", got.Status)
	}
	got = decode[authenticationv1.TokenReview](t, post(t, v.ServeToken, &authz.Attributes{User: admin}, `{"spec":{"token":"abc"}}`), 201)
	if got.Status.Authenticated || got.Status.Error == "" {
		t.Errorf("a bad token: %+v", got.Status)
	}
	s := decode[metav1.Status](t, post(t, v.ServeToken, &authz.Attributes{User: admin}, `{}`), 400)
	if s.Message != "token is required for TokenReview in authentication" {
		t.Errorf("no token: %q", s.Message)
	}
}

func TestSelfSubjectReview(t *testing.T) {
	u := &authn.User{Name: "jane", UID: "7", Groups: []string{"dev", "system:authenticated"}, Extra: map[string][]string{"k": {"v"}}}
	got := decode[authenticationv1.SelfSubjectReview](t, post(t, (&Reviews{}).ServeSelf, &authz.Attributes{User: u}, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`), 201)
	want := authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: u.Groups, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	if diff := cmp.Diff(want, got.Status.UserInfo); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAccessReviews(t *testing.T) {
	b := &authz.Builtin{}
	v := &Access{Authorizer: b, RulesFor: b.RulesFor}
	jane := &authn.User{Name: "jane", Groups: []string{"system:authenticated"}}
	self := func(u *authn.User, body string) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		return decode[authorizationv1.SelfSubjectAccessReview](t, post(t, v.ServeSelf, &authz.Attributes{User: u}, body), 201).Status
	}
	if !self(admin, `{"spec":{"resourceAttributes":{"verb":"delete","resource":"pods","namespace":"web"}}}`).Allowed {
		t.Error("the administrator may not delete pods")
	}
	if self(jane, `{"spec":{"resourceAttributes":{"verb":"delete","resource":"pods","namespace":"web"}}}`).Allowed {
		t.Error("jane may delete pods")
	}
	if !self(jane, `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/version"}}}`).Allowed {
		t.Error("jane may not read the version")
	}
	of := func(body string) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		return decode[authorizationv1.SubjectAccessReview](t, post(t, v.ServeSubject, &authz.Attributes{User: admin}, body), 201).Status
	}
	if !of(`{"spec":{"groups":["system:masters"],"resourceAttributes":{"verb":"*","resource":"*"}}}`).Allowed {
		t.Error("system:masters may not do everything")
	}
	if of(`{"spec":{"user":"jane","resourceAttributes":{"verb":"list","resource":"pods"}}}`).Allowed {
		t.Error("jane may list pods")
	}
	for _, tc := range []struct {
		h    func(http.ResponseWriter, *http.Request, *authz.Attributes)
		body string
		code int
		msg  string
	}{
		{v.ServeSelf, `{}`, 422, "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
		{v.ServeSelf, `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, 422, "cannot be specified in combination with resourceAttributes"},
		{v.ServeSubject, `{"spec":{"resourceAttributes":{}}}`, 422, "at least one of user or group must be specified"},
		{v.ServeLocal, `{"spec":{"user":"jane","resourceAttributes":{"namespace":"other"}}}`, 400, "spec.resourceAttributes.namespace must match namespace: web"},
		{v.ServeLocal, `{"spec":{"user":"jane","nonResourceAttributes":{}}}`, 422, "disallowed on this kind of request"},
		{v.ServeRules, `{}`, 400, "no namespace on request"},
	} {
		s := decode[metav1.Status](t, post(t, tc.h, &authz.Attributes{User: admin, Namespace: "web"}, tc.body), tc.code)
		if !strings.Contains(s.Message, tc.msg) {
			t.Errorf("%s: %q, want %q", tc.body, s.Message, tc.msg)
		}
	}
	local := decode[authorizationv1.LocalSubjectAccessReview](t, post(t, v.ServeLocal, &authz.Attributes{User: admin, Namespace: "web"},
		`{"spec":{"groups":["system:masters"],"resourceAttributes":{"namespace":"web","verb":"get","resource":"pods"}}}`), 201)
	if !local.Status.Allowed {
		t.Errorf("local: %+v", local.Status)
	}
	rules := decode[authorizationv1.SelfSubjectRulesReview](t, post(t, v.ServeRules, &authz.Attributes{User: jane}, `{"spec":{"namespace":"web"}}`), 201)
	if len(rules.Status.ResourceRules) != 2 || len(rules.Status.NonResourceRules) == 0 || rules.Status.Incomplete {
		t.Errorf("jane's rules: %+v", rules.Status)
	}
}

func TestOpenID(t *testing.T) {
	f := newFixture(t)
	paths := OpenID(f.issuer.Signer, "https://10.96.0.1")
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		paths[path].ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	conf := decode[map[string]any](t, get("/.well-known/openid-configuration"), 200)
	if (*conf)["issuer"] != issuer || (*conf)["jwks_uri"] != "https://10.96.0.1/openid/v1/jwks" {
		t.Errorf("configuration %v", *conf)
	}
	keys := decode[jose.JSONWebKeySet](t, get("/openid/v1/jwks"), 200)
	out, err := f.issuer.Issue(t.Context(), admin, "web", "app", request(authenticationv1.TokenRequestSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSigned(out.Status.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.Verify(keys); err != nil {
		t.Errorf("the published key does not verify a token: %v", err)
	}
	if !keys.Keys[0].IsPublic() {
		t.Error("the private key is published")
	}
	w := httptest.NewRecorder()
	paths["/openid/v1/jwks"].ServeHTTP(w, httptest.NewRequest("POST", "/openid/v1/jwks", nil))
	if w.Code != 405 {
		t.Errorf("POST: %d, want 405", w.Code)
	}
}
