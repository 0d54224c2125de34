package harness

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInThread: whichever thread asks, the first one is never taken.
func TestInThread(t *testing.T) {
	for range 1000 {
		inThread(func() []string {
			if unix.Gettid() == unix.Getpid() {
				t.Error("it runs in the process's first thread")
			}
			return nil
		})
		runtime.Gosched()
	}
}
