package legacytokens

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "legacytokens"

// DefaultPeriod is how long a token may go unused.
const DefaultPeriod = 365 * 24 * time.Hour

// Tracking is the ConfigMap that tells since when uses are noted, under
// Since, as a day in UTC.
const (
	Tracking = "kube-apiserver-legacy-service-account-token-tracking"
	Since    = "since"
)

// Controller is the loop, wired. Its keys are Secrets.
type Controller struct {
	*loop.Loop
	client                            client.Interface
	period                            time.Duration
	written                           controllers.Written
	secrets, accounts, pods, tracking client.View
}

// bySecret indexes accounts and pods by namespace and the Secrets they name.
const bySecret = "legacytokens.secret"

// New wires the loop; Run turns it.
func New(opts controllers.Options, period time.Duration) *Controller {
	c := &Controller{
		client: opts.Client, period: period,
		secrets:  opts.Client.View(client.Secrets, client.ViewOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}),
		accounts: opts.Client.View(client.ServiceAccounts, client.ViewOptions{}),
		pods:     opts.Client.View(client.Pods, client.ViewOptions{}),
		tracking: opts.Client.View(client.ConfigMaps, client.ViewOptions{Namespace: metav1.NamespaceSystem, FieldSelector: "metadata.name=" + Tracking}),
	}
	c.accounts.Index(bySecret, secretsOf)
	c.pods.Index(bySecret, secretsOf)
	c.Loop = controllers.NewLoop(opts, Name, 2, c.reconcile)
	return c
}

// secretsOf are the Secrets that an account lists, or that a pod mounts.
func secretsOf(obj client.Object) (keys []string) {
	switch obj := obj.(type) {
	case *corev1.ServiceAccount:
		for i := range obj.Secrets {
			keys = append(keys, obj.Namespace+"/"+obj.Secrets[i].Name)
		}
	case *corev1.Pod:
		for i := range obj.Spec.Volumes {
			if s := obj.Spec.Volumes[i].Secret; s != nil {
				keys = append(keys, obj.Namespace+"/"+s.SecretName)
			}
		}
	}
	return keys
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	// Only what is a token of an account is looked at: pods mount all sorts.
	lookAtSecrets := func(obj client.Object) {
		if obj == nil {
			return
		}
		for _, key := range secretsOf(obj) {
			if name := key[len(obj.GetNamespace())+1:]; c.secrets.Get(obj.GetNamespace(), name) != nil {
				c.Look(loop.Key{Namespace: obj.GetNamespace(), Name: name})
			}
		}
	}
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.secrets, Changed: func(_, new client.Object) {
			if new != nil {
				c.Look(controllers.KeyOf(new))
			}
		}},
		controllers.Input{View: c.accounts, Changed: func(old, new client.Object) { lookAtSecrets(old); lookAtSecrets(new) }},
		controllers.Input{View: c.pods, Changed: func(old, new client.Object) {
			if new == nil { // who mounts it holds it back; who is gone may let it go
				lookAtSecrets(old)
			}
		}},
		controllers.Input{View: c.tracking, Changed: func(_, _ client.Object) {
			for _, s := range c.secrets.List("") {
				c.Look(controllers.KeyOf(s))
			}
		}})
}

// since is when uses began to be noted; zero: nobody says so.
func (c *Controller) since() time.Time {
	if cm := client.In[*corev1.ConfigMap](c.tracking, metav1.NamespaceSystem, Tracking); cm != nil {
		if t, ok := day(cm.Data[Since]); ok {
			return t
		}
	}
	return time.Time{}
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	secret := client.In[*corev1.Secret](c.secrets, key.Namespace, key.Name)
	index := key.Namespace + "/" + key.Name
	if secret == nil || secret.DeletionTimestamp != nil ||
		c.accounts.CountIndex(bySecret, index) == 0 || c.pods.CountIndex(bySecret, index) > 0 {
		return loop.Done(), nil
	}
	now := time.Now()
	switch next := plan(secret, c.since(), now, c.period); {
	case next.mark:
		changed := secret.DeepCopy()
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		changed.Labels[invalidSince] = now.UTC().Format(time.DateOnly)
		got, err := c.client.Update(ctx, client.Secrets, changed)
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil
		}
		return c.written.Outcome(key, c.secrets, got, err, "invalidate", "the token, which nobody uses")
	case next.remove:
		if err := controllers.DeleteSeen(ctx, c.client, client.Secrets, secret); err != nil {
			return loop.Outcome{}, fmt.Errorf("delete the token, which nobody uses: %w", err)
		}
		return loop.Done(), nil // the view shows it soon
	case next.wait > 0:
		return loop.DoneUntil(next.wait), nil
	}
	return loop.Done(), nil
}
