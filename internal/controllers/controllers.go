// Package controllers holds what the built-in loops share: options, adoption,
// indexes, pace, waiting for their own writes. Each loop lives in a folder below
// this one: plan.go decides (pure: what is wanted, what exists, which one step is
// next), controller.go wires it to the front door; small loops are one file. They
// use only what any client can. internal/cluster/loops.go lists them.
package controllers

import (
	"context"
	"log/slog"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Options are what every loop is given.
type Options struct {
	// Client carries the identity of the loops.
	Client client.Interface
	Logger *slog.Logger
	// Events tells people what the loops did; nil: nobody is told.
	Events client.Recorder
	// Observer, when not nil, is told every outcome of every loop.
	Observer func(loop string, key loop.Key, o loop.Outcome, err error)
}

// Controller is a loop, wired.
type Controller interface {
	// Name of the loop: "deployment".
	Name() string
	// Run waits for what the loop reads, and turns it until ctx ends.
	Run(ctx context.Context) error
	// Gaps lists what the loop has not closed.
	Gaps() []loop.Gap
}

// Recorder is Events, or one that records nothing.
func (o Options) Recorder() client.Recorder {
	if o.Events == nil {
		return client.NoEvents
	}
	return o.Events
}
