package envtest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhileParent: what a test has started goes on while the test lives, and
// ends when it has gone without a word.
func TestWhileParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parent atomic.Int64
		parent.Store(42)
		ctx, cancel := whileParent(t.Context(), func() int { return int(parent.Load()) })
		defer cancel()
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it ended while its parent lives")
		}
		parent.Store(1) // whoever is orphaned gets another parent
		time.Sleep(2 * time.Second)
		if ctx.Err() != context.Canceled {
			t.Error("it outlives its parent")
		}
	})
}
