package authn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The token of a Secret is good as long as the Secret holds it and the account
// is the very one.
func TestLegacyTokens(t *testing.T) {
	ctx := context.Background()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "app", UID: "sa1"}}
	fresh := func() (world, *corev1.Secret, string, *ServiceAccounts) {
		w := newWorld()
		signer, accounts := newServiceAccounts(t, w, ecKey(t))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "app-token"}, Type: corev1.SecretTypeServiceAccountToken}
		token, err := signer.SignLegacy(secret, account)
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{"token": []byte(token)}
		w["secrets/web/app-token"] = secret
		return w, secret, token, accounts
	}

	_, _, token, accounts := fresh()
	used := 0
	accounts.Used = func(context.Context, *corev1.Secret) { used++ }
	want := &User{Name: "system:serviceaccount:web:app", UID: "sa1", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:web", "system:authenticated"}}
	for range 2 { // the second time its signature is known
		got, audiences, err := accounts.AuthenticateToken(ctx, token, nil)
		if d := cmp.Diff(want, got); d != "" || err != nil || len(audiences) != 1 {
			t.Fatalf("error %v, audiences %v, user (-want +got):\n%s", err, audiences, d)
		}
	}
	if used != 2 {
		t.Errorf("told of %d uses, want 2", used)
	}
	if _, _, err := accounts.AuthenticateToken(ctx, token, []string{"vault"}); err == nil {
		t.Error("it is good for an audience that is not the API server")
	}

	long := metav1.NewTime(time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		change func(w world, s *corev1.Secret)
		want   string
	}{
		"secret gone":     {func(w world, _ *corev1.Secret) { delete(w, "secrets/web/app-token") }, `secret "app-token" has been deleted`},
		"secret going":    {func(_ world, s *corev1.Secret) { s.DeletionTimestamp = &long }, `secret "app-token" has been deleted`},
		"another token":   {func(_ world, s *corev1.Secret) { s.Data["token"] = []byte("x") }, "does not hold it any more"},
		"account gone":    {func(w world, _ *corev1.Secret) { delete(w, "serviceaccounts/web/app") }, `serviceaccount "app" has been deleted`},
		"account anew":    {func(w world, _ *corev1.Secret) { w["serviceaccounts/web/app"].SetUID("sa2") }, "is another one now"},
		"unused for long": {func(_ world, s *corev1.Secret) { s.Labels = map[string]string{LegacyInvalid: "2025-01-01"} }, "is not taken since 2025-01-01"},
	} {
		w, secret, token, accounts := fresh()
		if _, _, err := accounts.AuthenticateToken(ctx, token, nil); err != nil {
			t.Fatal(err)
		}
		c.change(w, secret)
		if _, _, err := accounts.AuthenticateToken(ctx, token, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}

	// The form of such a token does not make it good: another key signed it.
	_, _, _, accounts = fresh()
	_, _, foreign, _ := fresh()
	if u, _, err := accounts.AuthenticateToken(ctx, foreign, nil); err == nil {
		t.Errorf("another key's token is %+v", u)
	}
}
