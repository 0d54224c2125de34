// Package sliceset brings the EndpointSlices of a service to what they are to
// be, a write at a time, for the loops that list endpoints: of pods, of
// Endpoints kept by hand, of DNS servers.
//
//	step := sliceset.Next(had, want, merge)   // where names follow from what a slice is for
//	outcome, err := keeper.Take(ctx, key, step)
//
// Next is pure. A crash between two steps is made good by the next look.
//
// See https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/.
package sliceset

import (
	"context"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/loop"
)

// Step is the next write; all nil: none.
type Step struct {
	Create, Update, Remove *discoveryv1.EndpointSlice
}

// Next returns the next write that makes the slices those wanted, which are
// known by their names. merge writes into a copy of a slice that is there what
// the wanted one of its name says. What is missing comes first, so that no
// address is without a slice meanwhile.
func Next(had, want []*discoveryv1.EndpointSlice, merge func(into, want *discoveryv1.EndpointSlice)) Step {
	for _, w := range want {
		i := slices.IndexFunc(had, named(w.Name))
		if i < 0 {
			return Step{Create: w}
		}
		next := had[i].DeepCopy()
		merge(next, w)
		if !equality.Semantic.DeepEqual(had[i], next) {
			return Step{Update: next}
		}
	}
	for _, h := range had {
		if h.DeletionTimestamp == nil && !slices.ContainsFunc(want, named(h.Name)) {
			return Step{Remove: h}
		}
	}
	return Step{}
}

func named(name string) func(*discoveryv1.EndpointSlice) bool {
	return func(s *discoveryv1.EndpointSlice) bool { return s.Name == name }
}

// Keeper carries steps out for a loop.
type Keeper struct {
	Client  client.Interface
	Written *controllers.Written
	Slices  client.View
}

// Take carries out a step for key. Without one the outcome is Done.
func (k *Keeper) Take(ctx context.Context, key loop.Key, s Step) (loop.Outcome, error) {
	switch {
	case s.Create != nil:
		got, err := k.Client.Create(ctx, client.EndpointSlices, s.Create)
		if controllers.NamespaceEnding(err) {
			return controllers.WaitForNamespace(s.Create.Namespace)
		}
		return k.Written.Outcome(key, k.Slices, got, err, "create", "slice %s with %d endpoints", s.Create.Name, len(s.Create.Endpoints))
	case s.Update != nil:
		got, err := k.Client.Update(ctx, client.EndpointSlices, s.Update)
		return k.Written.Outcome(key, k.Slices, got, err, "update", "slice %s to %d endpoints", s.Update.Name, len(s.Update.Endpoints))
	case s.Remove != nil:
		if err := controllers.DeleteSame(ctx, k.Client, client.EndpointSlices, s.Remove); err != nil {
			return loop.Outcome{}, fmt.Errorf("delete slice %s: %w", s.Remove.Name, err)
		}
	}
	return loop.Done(), nil // after a deletion, the view's change is a look
}
