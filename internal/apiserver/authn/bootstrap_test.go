package authn

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func bootstrapSecret(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:workers"),
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestBootstrapTokens(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	data := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		token  string
		secret *corev1.Secret
		good   bool
	}{
		"good":         {token, bootstrapSecret(nil), true},
		"not yet over": {token, bootstrapSecret(data("expiration", time.Now().Add(time.Hour).Format(time.RFC3339))), true},
		"expired":      {token, bootstrapSecret(data("expiration", time.Now().Add(-time.Hour).Format(time.RFC3339))), false},
		"unreadable":   {token, bootstrapSecret(data("expiration", "soon")), false},
		"signs only":   {token, bootstrapSecret(data("usage-bootstrap-authentication", "yes")), false},
		"guessed":      {"abcdef.0123456789abcdee", bootstrapSecret(nil), false},
		"other id":     {token, bootstrapSecret(data("token-id", "abcdeg")), false},
		"masters":      {token, bootstrapSecret(data("auth-extra-groups", "system:masters")), false},
		"opaque":       {token, bootstrapSecret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), false},
		"going":        {token, bootstrapSecret(func(s *corev1.Secret) { s.DeletionTimestamp = &now }), false},
		"unknown":      {"ghijkl.0123456789abcdef", bootstrapSecret(nil), false},
	} {
		w := world{"secrets/kube-system/bootstrap-token-abcdef": c.secret}
		b := &BootstrapTokens{Get: w.get, Audiences: []string{issuer}}
		u, audiences, err := b.AuthenticateToken(context.Background(), c.token, nil)
		if !c.good {
			if u != nil || err == nil || err.Error() != "invalid bearer token" {
				t.Errorf("%s: user %+v, error %v", name, u, err)
			}
			continue
		}
		want := &User{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"}}
		if d := cmp.Diff(want, u); d != "" || err != nil || !slices.Equal(audiences, []string{issuer}) {
			t.Errorf("%s: error %v, audiences %v, user (-want +got):\n%s", name, err, audiences, d)
		}
		if _, _, err := b.AuthenticateToken(context.Background(), c.token, []string{"vault"}); err == nil {
			t.Errorf("%s: it is good for an audience that is not the API server", name)
		}
	}
}

// What is no bootstrap token is the next one's to judge.
func TestTokensAreAskedInTurn(t *testing.T) {
	w := newWorld()
	w["secrets/kube-system/bootstrap-token-abcdef"] = bootstrapSecret(nil)
	signer, accounts := newServiceAccounts(t, w, ecKey(t))
	all := Tokens{&BootstrapTokens{Get: w.get, Audiences: []string{issuer}}, accounts}
	signed, err := signer.Sign(newClaims())
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		signed: "system:serviceaccount:web:app", "abcdef.0123456789abcdef": "system:bootstrap:abcdef", "abcdef.0000000000000000": "", "nonsense": "",
	} {
		got := ""
		u, _, err := all.AuthenticateToken(context.Background(), token, nil)
		if u != nil {
			got = u.Name
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.10s...: user %q, error %v, want %q", token, got, err, want)
		}
	}
}
