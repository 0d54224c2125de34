package revisions

import (
	"context"

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
