// Package clusterinfo is the loop that signs kube-public/cluster-info, a
// ConfigMap with a kubeconfig without credentials, with every bootstrap token
// that may sign: whoever was given a token knows by its signature that the
// cluster's address and authority are the right ones, before it trusts anybody.
// What a token is says package bootstraptoken.
//
//	data:
//	  kubeconfig: ...          whoever sets the cluster up writes this
//	  jws-kubeconfig-ID: ...   the loop: a detached signature by the token ID
//
// Signatures depend on nothing but what they sign, so signing again changes
// nothing. Without the ConfigMap, or a kubeconfig in it, there is nothing to
// do.
//
// See https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#configmap-signing.
package clusterinfo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/bootstraptoken"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/bootstraptokencleaning"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "clusterinfo"

// ConfigMap that is signed, in kube-public.
const ConfigMap = "cluster-info"

const (
	signed    = "kubeconfig"
	signature = "jws-kubeconfig-"
)

var only = loop.Key{Namespace: metav1.NamespacePublic, Name: ConfigMap}

// Controller is the loop, wired. Its one key is the ConfigMap.
type Controller struct {
	*loop.Loop
	client       client.Interface
	written      controllers.Written
	maps, tokens client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	c := &Controller{
		client: opts.Client, tokens: bootstraptokencleaning.Tokens(opts.Client),
		maps: opts.Client.View(client.ConfigMaps, client.ViewOptions{Namespace: only.Namespace, FieldSelector: "metadata.name=" + ConfigMap}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	look := func(_, _ client.Object) { c.Look(only) }
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.maps, Changed: look}, controllers.Input{View: c.tokens, Changed: look})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	cm := client.In[*corev1.ConfigMap](c.maps, key.Namespace, key.Name)
	if cm == nil || cm.DeletionTimestamp != nil || cm.Data[signed] == "" {
		return loop.Done(), nil
	}
	now := time.Now()
	data, until := want(cm.Data, client.Listed[*corev1.Secret](c.tokens, bootstraptoken.Namespace), now)
	if maps.Equal(data, cm.Data) {
		if until.IsZero() {
			return loop.Done(), nil
		}
		return loop.DoneUntil(until.Sub(now)), nil
	}
	changed := cm.DeepCopy()
	changed.Data = data
	got, err := c.client.Update(ctx, client.ConfigMaps, changed)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	return c.written.Outcome(key, c.maps, got, err, "change", "the signatures")
}

// want is the data with the signatures of all tokens that sign, and no other,
// and when the first of these tokens expires; the zero time for never.
func want(data map[string]string, secrets []*corev1.Secret, now time.Time) (out map[string]string, until time.Time) {
	out = maps.Clone(data)
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, signature) })
	for _, s := range secrets {
		t, err := bootstraptoken.Read(s)
		if err != nil || !t.Signs || t.Expired(now) || s.DeletionTimestamp != nil {
			continue
		}
		out[signature+t.ID] = sign(t, data[signed])
		if !t.Expires.IsZero() && (until.IsZero() || t.Expires.Before(until)) {
			until = t.Expires
		}
	}
	return out, until
}

// sign is a JSON web signature (RFC 7515) without what it signs:
// HEADER..SIGNATURE. It is made by hand, for a token's secret is shorter than
// the library takes as a key.
func sign(t *bootstraptoken.Token, text string) string {
	base64 := base64.RawURLEncoding
	header := base64.EncodeToString(fmt.Appendf(nil, `{"alg":"HS256","kid":%q}`, t.ID))
	mac := hmac.New(sha256.New, []byte(t.Secret))
	mac.Write([]byte(header + "." + base64.EncodeToString([]byte(text))))
	return header + ".." + base64.EncodeToString(mac.Sum(nil))
}
