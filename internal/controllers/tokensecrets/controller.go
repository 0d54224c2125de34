// Package tokensecrets is the loop that fills the Secrets of the type
// kubernetes.io/service-account-token: with a token of the account that the
// Secret's annotation names, the account's namespace, and the certificates by
// which its holder knows the API server.
//
//	account there, and the very one --> token, namespace, ca.crt, annotation with its uid
//	account gone, or made anew      --> the Secret goes as well
//
// Failure: each step is one write, guarded by what was looked at. That an
// account is absent is not believed from a view: the server itself is asked
// before a Secret is deleted.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#token-controller.
package tokensecrets

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "tokensecrets"

// Sign makes the token that a Secret is to hold for an account.
type Sign func(*corev1.Secret, *corev1.ServiceAccount) (string, error)

// Controller is the loop, wired. Its keys are Secrets.
type Controller struct {
	*loop.Loop
	client            client.Interface
	sign              Sign
	bundle            []byte // certificates in PEM
	written           controllers.Written
	secrets, accounts client.View
}

// byAccount indexes Secrets by namespace and the account that they name.
const byAccount = "tokensecrets.account"

// New wires the loop, for a bundle of certificates in PEM; Run turns it.
func New(opts controllers.Options, sign Sign, bundle []byte) *Controller {
	c := &Controller{
		client: opts.Client, sign: sign, bundle: bundle,
		secrets:  opts.Client.View(client.Secrets, client.ViewOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}),
		accounts: opts.Client.View(client.ServiceAccounts, client.ViewOptions{}),
	}
	c.secrets.Index(byAccount, func(obj client.Object) []string {
		return []string{obj.GetNamespace() + "/" + obj.GetAnnotations()[corev1.ServiceAccountNameKey]}
	})
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.secrets, Changed: func(_, new client.Object) {
			if new != nil {
				c.Look(controllers.KeyOf(new))
			}
		}},
		controllers.Input{View: c.accounts, Changed: func(old, new client.Object) {
			if old != nil && new != nil && old.GetUID() == new.GetUID() {
				return
			}
			account := controllers.Present(old, new)
			for _, s := range c.secrets.ByIndex(byAccount, account.GetNamespace()+"/"+account.GetName()) {
				c.Look(controllers.KeyOf(s))
			}
		}})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	secret := client.In[*corev1.Secret](c.secrets, key.Namespace, key.Name)
	if secret == nil || secret.DeletionTimestamp != nil || secret.Type != corev1.SecretTypeServiceAccountToken {
		return loop.Done(), nil
	}
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	if name == "" {
		return loop.Done(), nil // of an older server: now validation asks for it
	}
	account := client.In[*corev1.ServiceAccount](c.accounts, key.Namespace, name)
	if !of(secret, account) {
		return c.without(ctx, key, secret, name)
	}
	changed := filled(secret, account, c.bundle)
	if changed == nil {
		return loop.Done(), nil
	}
	if len(changed.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := c.sign(secret, account)
		if err != nil {
			return loop.Outcome{}, fmt.Errorf("sign a token of ServiceAccount %s: %w", name, err)
		}
		changed.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	got, err := c.client.Update(ctx, client.Secrets, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.secrets, got, err, "update", "the token of ServiceAccount %s", name)
}

// of tells whether a Secret is of an account. Until it holds the account's uid
// the name will do.
func of(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	if account == nil {
		return false
	}
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return uid == "" || uid == string(account.UID)
}

// filled is a Secret with all that its account's ought to hold but for the
// token; nil: it holds that, and a token.
func filled(secret *corev1.Secret, account *corev1.ServiceAccount, bundle []byte) *corev1.Secret {
	fits := len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 &&
		(len(bundle) == 0 || bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], bundle)) &&
		string(secret.Data[corev1.ServiceAccountNamespaceKey]) == secret.Namespace &&
		secret.Annotations[corev1.ServiceAccountUIDKey] == string(account.UID)
	if fits {
		return nil
	}
	changed := secret.DeepCopy()
	changed.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	if len(bundle) > 0 {
		changed.Data[corev1.ServiceAccountRootCAKey] = bundle
	}
	changed.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	return changed
}

// without deletes a Secret whose account is gone.
func (c *Controller) without(ctx context.Context, key loop.Key, secret *corev1.Secret, name string) (loop.Outcome, error) {
	live, err := client.Get[*corev1.ServiceAccount](ctx, c.client, client.ServiceAccounts, key.Namespace, name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return loop.Outcome{}, fmt.Errorf("look whether ServiceAccount %s is there: %w", name, err)
	case err == nil && of(secret, live):
		return loop.WaitFor("ServiceAccount "+key.Namespace+"/"+name, "it is there but not seen yet"), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, client.Secrets, secret); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete the token of ServiceAccount %s, which is gone: %w", name, err)
	}
	return loop.Done(), nil // the view shows it soon
}
