package tokens

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
)

// lastUsed is the label with the day, in UTC, of a Secret token's last use.
const lastUsed = "kubernetes.io/legacy-token-last-used"

// Uses notes on the Secrets that hold service account tokens when these were
// last used, so that those which nobody needs can go.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#legacy-serviceaccount-token-tracking-controller
type Uses struct {
	Update func(ctx context.Context, res client.Resource, obj client.Object, subresource string) (client.Object, error)
}

// Note notes a use: one write on a token's first use of a day. One that fails,
// because somebody else wrote as well, is made good by the next use.
func (u *Uses) Note(ctx context.Context, secret *corev1.Secret) {
	today := time.Now().UTC().Format(time.DateOnly)
	if secret.Labels[lastUsed] == today {
		return
	}
	secret = secret.DeepCopy()
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[lastUsed] = today
	_, _ = u.Update(ctx, client.Secrets, secret, "")
}
