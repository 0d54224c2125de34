package cli

import (
	"runtime"
	"testing"
)

func TestRoomFor(t *testing.T) {
	for _, c := range []struct {
		live, roots uint64
		want        int
	}{{0, 0, 100}, {10 << 20, 5 << 20, 100}, {64 << 20, 0, 100}, {96 << 20, 0, 83}, {96 << 20, 32 << 20, 62}, {256 << 20, 0, 62}, {1 << 30, 0, 53}, {16 << 30, 0, 50}} {
		if got := roomFor(c.live, c.roots); got != c.want {
			t.Errorf("%d MiB live: got %d %%, want %d", c.live>>20, got, c.want)
		}
	}
	last := uint64(0)
	for live := uint64(0); live < 8<<30; live += 1 << 20 {
		all := live + live*uint64(roomFor(live, 0))/100
		if all < last-last/50 { // whole percent make small steps
			t.Fatalf("a heap of %d MiB is given less in all than a smaller one", live>>20)
		}
		last = all
	}
}

// Each collection is followed by a call.
func TestAfterCollection(t *testing.T) {
	called := make(chan bool, 100)
	afterCollection(func() { called <- true })
	for range 3 {
		runtime.GC()
		<-called
	}
}
