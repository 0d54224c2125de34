package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// parts runs several things that each block until their context ends. The
// first that fails ends all others.
type parts struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newParts(ctx context.Context) *parts {
	p := &parts{}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

func (p *parts) run(name string, f func(context.Context) error) {
	p.wg.Go(func() {
		err := f(p.ctx)
		if err != nil && p.ctx.Err() == nil {
			p.cancel(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// wait blocks until all have ended and returns why; nil when the outer context
// ended.
func (p *parts) wait(outer context.Context) error {
	p.wg.Wait()
	err := context.Cause(p.ctx)
	p.cancel(nil)
	if outer.Err() != nil && (err == nil || errors.Is(err, context.Cause(outer))) {
		return nil
	}
	return err
}
