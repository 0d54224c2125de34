package authn

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

const issuer = "https://kubernetes.default.svc.cluster.local"

// world is the objects that exist, by "resource/namespace/name".
type world map[string]client.Object

func (w world) get(_ context.Context, res client.Resource, ns, name string) (client.Object, error) {
	if o := w[res.Resource+"/"+ns+"/"+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(res.GroupResource(), name)
}

func meta(uid string) metav1.ObjectMeta { return metav1.ObjectMeta{UID: types.UID(uid)} }

func newWorld() world {
	return world{
		"serviceaccounts/web/app": &corev1.ServiceAccount{ObjectMeta: meta("sa1")},
		"pods/web/app-1":          &corev1.Pod{ObjectMeta: meta("p1")},
		"secrets/web/s":           &corev1.Secret{ObjectMeta: meta("s1")},
		"nodes//n1":               &corev1.Node{ObjectMeta: meta("n1uid")},
	}
}

func newClaims() *Claims {
	now := time.Now()
	return &Claims{
		Claims: jwt.Claims{
			Subject:   "system:serviceaccount:web:app",
			Audience:  jwt.Audience{issuer},
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			Expiry:    jwt.NewNumericDate(now.Add(time.Hour)),
			ID:        "id1",
		},
		Kubernetes: KubernetesClaims{Namespace: "web", ServiceAccount: Object{"app", "sa1"}},
	}
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newServiceAccounts(t testing.TB, w world, key crypto.Signer) (*Signer, *ServiceAccounts) {
	t.Helper()
	s, err := NewSigner(issuer, key)
	if err != nil {
		t.Fatal(err)
	}
	sa, err := NewServiceAccounts(issuer, []string{issuer}, []crypto.PublicKey{key.Public()}, w.get)
	if err != nil {
		t.Fatal(err)
	}
	return s, sa
}

func TestServiceAccountToken(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"ES256": ecKey(t), "RS256": rsaKey} {
		t.Run(name, func(t *testing.T) {
			signer, sa := newServiceAccounts(t, newWorld(), key)
			c := newClaims()
			c.Kubernetes.Pod = &Object{"app-1", "p1"}
			c.Kubernetes.Node = &Object{"n1", "n1uid"}
			token, err := signer.Sign(c)
			if err != nil {
				t.Fatal(err)
			}
			r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
			got, err := Bearer{sa}.Authenticate(r)
			if err != nil {
				t.Fatal(err)
			}
			want := &User{
				Name:   "system:serviceaccount:web:app",
				UID:    "sa1",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:web", "system:authenticated"},
				Extra: map[string][]string{
					"authentication.kubernetes.io/pod-name":      {"app-1"},
					"authentication.kubernetes.io/pod-uid":       {"p1"},
					"authentication.kubernetes.io/node-name":     {"n1"},
					"authentication.kubernetes.io/node-uid":      {"n1uid"},
					"authentication.kubernetes.io/credential-id": {"JTI=id1"},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r.Header.Get("Authorization") != "" {
				t.Error("the token is still in the request")
			}
		})
	}
}

func TestServiceAccountTokenRefused(t *testing.T) {
	old := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, tc := range []struct {
		name   string
		change func(c *Claims, w world)
		want   string
	}{
		{"expired", func(c *Claims, _ world) { c.Expiry = jwt.NewNumericDate(time.Now().Add(-2 * time.Minute)) }, "expired"},
		{"not yet", func(c *Claims, _ world) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(time.Hour)) }, "not valid yet"},
		{"never expires", func(c *Claims, _ world) { c.Expiry = nil }, "never expires"},
		{"audience", func(c *Claims, _ world) { c.Audience = jwt.Audience{"vault"} }, "audience"},
		{"no audience", func(c *Claims, _ world) { c.Audience = nil }, "audience"},
		{"subject", func(c *Claims, _ world) { c.Subject = "system:serviceaccount:web:other" }, "subject"},
		{"no account", func(c *Claims, _ world) { c.Kubernetes.ServiceAccount = Object{} }, "no service account"},
		{"account gone", func(_ *Claims, w world) { delete(w, "serviceaccounts/web/app") }, `serviceaccount "app" has been deleted`},
		{"account made anew", func(_ *Claims, w world) {
			w["serviceaccounts/web/app"] = &corev1.ServiceAccount{ObjectMeta: meta("sa2")}
		}, "another one"},
		{"account being deleted", func(_ *Claims, w world) {
			w["serviceaccounts/web/app"] = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: "sa1", DeletionTimestamp: &old}}
		}, "has been deleted"},
		{"pod gone", func(c *Claims, _ world) { c.Kubernetes.Pod = &Object{"app-2", "p2"} }, `pod "app-2" has been deleted`},
		{"pod made anew", func(c *Claims, _ world) { c.Kubernetes.Pod = &Object{"app-1", "p0"} }, "another one"},
		{"secret gone", func(c *Claims, _ world) { c.Kubernetes.Secret = &Object{"t", "x"} }, "has been deleted"},
		{"node gone", func(c *Claims, _ world) { c.Kubernetes.Node = &Object{"n2", "x"} }, "has been deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, c := newWorld(), newClaims()
			signer, sa := newServiceAccounts(t, w, ecKey(t))
			tc.change(c, w)
			token, err := signer.Sign(c)
			if err != nil {
				t.Fatal(err)
			}
			u, _, err := sa.AuthenticateToken(context.Background(), token, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v; want an error with %q", u, err, tc.want)
			}
		})
	}
}

func TestForeignTokens(t *testing.T) {
	w := newWorld()
	_, sa := newServiceAccounts(t, w, ecKey(t))
	stranger, _ := newServiceAccounts(t, w, ecKey(t))
	foreign, err := stranger.Sign(newClaims())
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(foreign, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for _, token := range []string{foreign, "abc", "a.b.c", none + "." + rest, head + ".e30." + rest} {
		r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
		if u, err := (Bearer{sa}).Authenticate(r); err == nil {
			t.Errorf("%.40s...: authenticated as %v", token, u)
		}
	}
}

// The signature is remembered, but neither time nor what it is bound to.
func TestTokenEndsWithItsPodAndItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		signer, sa := newServiceAccounts(t, w, ecKey(t))
		c := newClaims()
		c.Kubernetes.Pod = &Object{"app-1", "p1"}
		token, err := signer.Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		try := func() error {
			_, _, err := sa.AuthenticateToken(t.Context(), token, nil)
			return err
		}
		if err := try(); err != nil {
			t.Fatal(err)
		}
		pod := w["pods/web/app-1"]
		delete(w, "pods/web/app-1")
		if try() == nil {
			t.Error("good without its pod")
		}
		w["pods/web/app-1"] = pod
		if err := try(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour + 2*leeway)
		if try() == nil {
			t.Error("good after its time")
		}
	})
}

func TestAudiences(t *testing.T) {
	signer, sa := newServiceAccounts(t, newWorld(), ecKey(t))
	c := newClaims()
	c.Audience = jwt.Audience{"vault", "bank"}
	token, err := signer.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	_, good, err := sa.AuthenticateToken(context.Background(), token, []string{"bank", "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bank"}, good); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWebSocketToken(t *testing.T) {
	signer, sa := newServiceAccounts(t, newWorld(), ecKey(t))
	token, err := signer.Sign(newClaims())
	if err != nil {
		t.Fatal(err)
	}
	carried := webSocketPrefix + base64.RawURLEncoding.EncodeToString([]byte(token))
	for _, tc := range []struct {
		protocols []string
		left      string
		ok        bool
	}{
		{[]string{carried + ", v5.channel.k8s.io"}, "v5.channel.k8s.io", true},
		{[]string{"v5.channel.k8s.io", carried, "v4.channel.k8s.io"}, "v5.channel.k8s.io,v4.channel.k8s.io", true},
		{[]string{carried}, "", false},
		{[]string{carried, carried, "x"}, "", false},
		{[]string{webSocketPrefix + "!!, x"}, "", false},
	} {
		r := &http.Request{Header: http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": tc.protocols}}
		u, err := Bearer{sa}.Authenticate(r)
		if (err == nil) != tc.ok || (u != nil) != tc.ok {
			t.Errorf("%.60v: %v, %v", tc.protocols, u, err)
			continue
		}
		if got := r.Header.Get("Sec-WebSocket-Protocol"); tc.ok && got != tc.left {
			t.Errorf("subprotocols left: %q, want %q", got, tc.left)
		}
	}
	for _, r := range []*http.Request{
		{Header: http.Header{}},
		{Header: http.Header{"Authorization": {"Basic abc"}}},
		{Header: http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io"}}},
	} {
		if u, err := (Bearer{sa}).Authenticate(r); u != nil || err != nil {
			t.Errorf("%v: %v, %v; want neither", r.Header, u, err)
		}
	}
}

func FuzzBearer(f *testing.F) {
	signer, sa := newServiceAccounts(f, newWorld(), ecKey(f))
	token, err := signer.Sign(newClaims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.b.c")
	f.Add(token[:len(token)-4])
	f.Fuzz(func(t *testing.T, s string) {
		if s == token {
			t.Skip()
		}
		if u, _, err := sa.AuthenticateToken(context.Background(), s, nil); err == nil && u.Name != "system:serviceaccount:web:app" {
			t.Errorf("%q is %v", s, u)
		}
	})
}

func BenchmarkTokenSeen(b *testing.B) {
	signer, sa := newServiceAccounts(b, newWorld(), ecKey(b))
	token, err := signer.Sign(newClaims())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := sa.AuthenticateToken(context.Background(), token, nil); err != nil {
			b.Fatal(err)
		}
	}
}
