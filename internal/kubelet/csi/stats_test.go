package csi_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
)

// TestStats: what a driver says of a volume is told, by the volume's name in its
// pod, and asked for once in a while only; a driver that takes its time, or says
// nothing, keeps nobody from what others say.
func TestStats(t *testing.T) {
	var asked atomic.Int32
	hold := make(chan struct{})
	r := newRig(t, func(d *csitest.Driver) {
		d.Capabilities = append(d.Capabilities, csitest.Statistics)
		d.Before = func(ctx context.Context, call, volume string) error {
			if call != "stats" {
				return nil
			}
			asked.Add(1)
			switch volume {
			case "h-slow":
				select {
				case <-hold:
				case <-ctx.Done():
				}
			case "h-none":
				return errors.New("nothing is known of it")
			}
			return nil
		}
	})
	data, slow, none := r.pod("a", "data"), r.pod("b", "slow"), r.pod("c", "none")
	r.must(r.mount(data, r.bound("data")))
	r.must(r.mount(slow, r.bound("slow")))
	r.must(r.mount(none, r.bound("none")))
	m, ctx := r.now()
	brief, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); m.Stats(brief) }()
	r.await("all are asked", func() string {
		if asked.Load() < 3 {
			return "they are not"
		}
		return ""
	})
	cancel()
	<-done // though the slow one is at it still
	r.await("the quick one is told of", func() string {
		now, cancel := context.WithCancel(ctx)
		cancel()
		got := m.Stats(now)
		if s := got[data.UID]["v"]; s == nil || *s.CapacityBytes != 100 || *s.UsedBytes != 30 || *s.AvailableBytes != 70 || *s.InodesUsed != 3 {
			return "it is not"
		}
		if len(got) != 1 {
			t.Errorf("got %v", got)
		}
		return ""
	})
	close(hold)
	r.await("so is the slow one", func() string {
		if m.Stats(ctx)[slow.UID]["v"] == nil {
			return "it is not"
		}
		return ""
	})
	if n := asked.Load(); n != 3 {
		t.Errorf("the driver was asked %d times", n)
	}
	r.must(r.tearDown(data))
	if got := m.Stats(ctx); got[data.UID] != nil {
		t.Errorf("after the pod has gone it says %v", got)
	}
}
