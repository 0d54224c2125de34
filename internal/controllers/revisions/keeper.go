package revisions

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Keeper carries steps out for a loop.
type Keeper struct {
	Client  client.Interface
	Written *controllers.Written
	History client.View // of ControllerRevisions
}

// Keep carries out a step for the owner at key. When another object has the
// revision's name, count writes down how many collisions there were by now; had
// is how many the owner knew of.
func (k *Keeper) Keep(ctx context.Context, key loop.Key, owner client.Object, s Step, had *int32, count func(*int32) (loop.Outcome, error)) (loop.Outcome, error) {
	got, taken, err := Keep(ctx, k.Client, owner, s)
	switch {
	case controllers.NamespaceEnding(err):
		return controllers.WaitForNamespace(key.Namespace)
	case !taken:
		return k.Written.Outcome(key, k.History, got, err, "create", "the revision of the template")
	}
	n := int32(1)
	if had != nil {
		n += *had
	}
	return count(&n)
}

// Forget deletes a revision that is Surplus.
func (k *Keeper) Forget(ctx context.Context, old *appsv1.ControllerRevision) (loop.Outcome, error) {
	err := k.Client.Delete(ctx, client.ControllerRevisions, old.Namespace, old.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Outcome{}, err
	}
	return loop.WaitFor("ControllerRevision "+old.Namespace+"/"+old.Name, "it is forgotten").In(time.Second), nil
}
