package persistentvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// Controller is the loop, wired.
type Controller struct {
	*loop.Loop
	client  client.Interface
	events  client.Recorder
	written controllers.Written

	claims, volumes, classes, pods client.View
}

// New wires the loop; Run turns it.
func New(opts controllers.Options) *Controller {
	view := func(res client.Resource) client.View { return opts.Client.View(res, client.ViewOptions{}) }
	c := &Controller{
		client: opts.Client, events: opts.Recorder(),
		claims: view(client.PersistentVolumeClaims), volumes: view(client.PersistentVolumes),
		classes: view(client.StorageClasses), pods: view(client.Pods),
	}
	indexClaims(c.claims)
	volumes.IndexByClaimRef(c.volumes)
	volumes.IndexFree(c.volumes)
	volumes.IndexPodsByClaim(c.pods)
	indexDefaults(c.classes)
	c.Loop = controllers.NewLoop(opts, Name, 0, c.reconcile)
	return c
}

// Run turns the loop until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Loop,
		controllers.Input{View: c.claims, Changed: c.claimChanged},
		controllers.Input{View: c.volumes, Changed: c.volumeChanged},
		controllers.Input{View: c.classes, Changed: c.classChanged},
		controllers.Input{View: c.pods, Changed: c.podChanged})
}

func (c *Controller) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if err := c.written.Wait(ctx, key); err != nil {
		return loop.Outcome{}, err
	}
	next, err := c.plan(ctx, key, false)
	if err == nil && next.final && (next.claim != nil || next.volume != nil) {
		next, err = c.plan(ctx, key, true)
	}
	if err != nil {
		return loop.Outcome{}, err
	}
	return c.act(ctx, key, next)
}

// plan decides what is next for a key. With live set the object on the other
// side is asked from the server: the view may not show it yet.
func (c *Controller) plan(ctx context.Context, key loop.Key, live bool) (step, error) {
	if key.Namespace == "" {
		v := client.In[*corev1.PersistentVolume](c.volumes, "", key.Name)
		if v == nil {
			return step{}, nil
		}
		var claim *corev1.PersistentVolumeClaim
		var err error
		if ref := v.Spec.ClaimRef; ref != nil {
			claim, err = see[*corev1.PersistentVolumeClaim](ctx, c.client, c.claims, client.PersistentVolumeClaims, ref.Namespace, ref.Name, live)
		}
		return planVolume(v, claim), err
	}
	claim := client.In[*corev1.PersistentVolumeClaim](c.claims, key.Namespace, key.Name)
	if claim == nil {
		return step{}, nil
	}
	w := &claimWorld{claim: claim}
	if name := claim.Spec.VolumeName; name != "" {
		v, err := see[*corev1.PersistentVolume](ctx, c.client, c.volumes, client.PersistentVolumes, "", name, live)
		if err != nil {
			return step{}, err
		}
		w.volume = v
	} else {
		w.meant = volumes.OfClaim(c.volumes, claim.Namespace, claim.Name)
		w.free = volumes.FreeOfClass(c.volumes, volumes.ClaimClass(claim))
		w.class = client.In[*storagev1.StorageClass](c.classes, "", volumes.ClaimClass(claim))
		if !volumes.NamesClass(claim) {
			w.fallback = volumes.DefaultClass(client.Indexed[*storagev1.StorageClass](c.classes, defaults, volumes.Yes))
		}
		w.pods = volumes.PodsOf(c.pods, claim.Namespace, claim.Name)
	}
	return planClaim(w), nil
}

// see reads an object from a view, or from the server itself; the zero T when
// it is not there.
func see[T client.Object](ctx context.Context, c client.Interface, v client.View, res client.Resource, namespace, name string, live bool) (T, error) {
	if !live {
		return client.In[T](v, namespace, name), nil
	}
	obj, err := client.Get[T](ctx, c, res, namespace, name)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return obj, err
}

// act takes a step.
func (c *Controller) act(ctx context.Context, key loop.Key, next step) (loop.Outcome, error) {
	res, view, obj := client.PersistentVolumeClaims, c.claims, client.Object(next.claim)
	if next.volume != nil {
		res, view, obj = client.PersistentVolumes, c.volumes, next.volume
	} else if next.claim == nil {
		c.tell(next.event)
		return next.outcome(), nil
	}
	var sub []string
	if next.status {
		sub = []string{"status"}
	}
	got, err := c.client.Update(ctx, res, obj, sub...)
	switch {
	case apierrors.IsNotFound(err):
		return loop.Done(), nil // an event of its end comes
	case err != nil:
		return loop.Outcome{}, fmt.Errorf("%s: %w", next.what, err)
	}
	c.tell(next.event)
	c.written.Note(key, view, got)
	return loop.Acted("%s", next.what), nil
}

func (c *Controller) tell(e *event) {
	if e != nil {
		c.events.Event(e.about, e.kind(), e.reason, "%s", e.message)
	}
}
