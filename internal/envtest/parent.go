package envtest

import (
	"context"
	"time"
)

// whileParent ends with ctx, or soon after the process that started this one
// has ended: a test that is killed stops nothing that it started. ppid is
// os.Getppid.
func whileParent(ctx context.Context, ppid func() int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := ppid()
	go func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for ppid() == parent {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}
