package dra

import (
	"context"
	"testing"
)

// TestEnds: a Manager that has ended follows nobody, and takes no driver that
// comes late.
func TestEnds(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.m.Run(ctx)
	r.m.followers.Wait() // returns: nothing was left to run
	if err := r.m.Register(context.Background(), r.drivers[0].plugin()); err == nil {
		t.Error("a driver was taken after the end")
	}
	if _, err := r.m.connection(r.drivers[0].name); err == nil {
		t.Error("a driver is there after the end")
	}
}
