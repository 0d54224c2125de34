// Package identitylease is the loop by which API servers know how many of them
// there are: each holds a Lease in kube-system, and takes away those of others
// that were not renewed.
//
//	ours:     made, or taken over from the process before on this machine; renewed
//	others':  deleted an hour after the last time they were renewed
//
// Deviation: upstream renews each ten seconds a Lease that is good for an hour.
// Here it is renewed each ten minutes: a quiet cluster stays quiet.
//
// See https://kubernetes.io/docs/concepts/architecture/leases/#api-server-identity.
package identitylease

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "identitylease"

// Label marks the Leases of API servers, with Value.
const (
	Label = "apiserver.kubernetes.io/identity"
	Value = "kube-apiserver"
)

// Life is for how long a Lease is good, Renewal how often it is renewed.
const (
	Life    = time.Hour
	Renewal = 10 * time.Minute
)

// Identity is which API server one is.
type Identity struct {
	Name     string // of the Lease; the same for each start on a machine
	Holder   string // this process
	Hostname string
}

// Of is the identity of a process that begins on a machine. Two clusters on one
// machine have a store each, and so may be called the same.
func Of(hostname string) Identity {
	sum := sha256.Sum256([]byte(hostname))
	name := "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
	return Identity{Name: name, Holder: name + "_" + uuid.NewString(), Hostname: hostname}
}

// Controller is the loop, wired. Its keys are Leases.
type Controller struct {
	*loop.Loop
	client  client.Interface
	id      Identity
	written controllers.Written
	leases  client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options, id Identity) *Controller {
	c := &Controller{
		client: opts.Client, id: id,
		leases: opts.Client.View(client.Leases, client.ViewOptions{Namespace: metav1.NamespaceSystem, LabelSelector: Label + "=" + Value}),
	}
	c.Loop = controllers.NewLoop(opts, Name, 1, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	c.Look(loop.Key{Namespace: metav1.NamespaceSystem, Name: c.id.Name})
	return controllers.Run(ctx, c.Loop, controllers.Input{View: c.leases, Changed: controllers.Look(c.Loop)})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	lease := client.In[*coordinationv1.Lease](c.leases, key.Namespace, key.Name)
	if key.Name == c.id.Name {
		return c.own(ctx, key, lease)
	}
	if lease == nil || lease.DeletionTimestamp != nil {
		return loop.Done(), nil
	}
	if left := time.Until(ends(lease)); left > 0 {
		return loop.DoneUntil(left), nil
	}
	if err := controllers.DeleteSeen(ctx, c.client, client.Leases, lease); err != nil {
		return loop.Outcome{}, fmt.Errorf("delete the lease of an API server that is gone: %w", err)
	}
	return loop.Done(), nil // the view shows it soon
}

// ends is when a Lease is good no more. One that says nothing never was.
func ends(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return lease.CreationTimestamp.Time
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
}

// own keeps our own Lease.
func (c *Controller) own(ctx context.Context, key loop.Key, lease *coordinationv1.Lease) (loop.Outcome, error) {
	now := time.Now()
	held := lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == c.id.Holder && lease.Spec.RenewTime != nil
	if held {
		if left := lease.Spec.RenewTime.Add(Renewal).Sub(now); left > 0 {
			return loop.DoneUntil(left), nil
		}
	}
	var got client.Object
	var err error
	verb := "renew"
	if lease == nil {
		verb = "create"
		got, err = c.client.Create(ctx, client.Leases, c.lease(nil, now))
		if apierrors.IsAlreadyExists(err) {
			return loop.WaitFor("Lease "+key.String(), "it is there but not seen yet, or without its label %s", Label).In(time.Minute), nil
		}
	} else {
		got, err = c.client.Update(ctx, client.Leases, c.lease(lease, now))
		if apierrors.IsNotFound(err) {
			return loop.Done(), nil // it is made when the view shows that it is gone
		}
	}
	return c.written.Outcome(key, c.leases, got, err, verb, "the lease of this API server")
}

func (c *Controller) lease(had *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	labels := map[string]string{Label: Value}
	if len(validation.IsValidLabelValue(c.id.Hostname)) == 0 { // not every name of a machine is one
		labels[corev1.LabelHostname] = c.id.Hostname
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: c.id.Name, Labels: labels}}
	if had != nil {
		lease = had.DeepCopy()
	}
	if h := lease.Spec.HolderIdentity; h == nil || *h != c.id.Holder {
		lease.Spec.HolderIdentity = &c.id.Holder
	}
	lease.Spec.LeaseDurationSeconds = new(int32(Life / time.Second))
	lease.Spec.RenewTime = new(metav1.NewMicroTime(now))
	return lease
}
