package local_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
	"github.com/setpoint-project/setpoint/internal/store/storetest"
)

// A machine loses power at any moment: of what was not synced, any part may be
// on disk. Everything acknowledged before the moment is there again, and what
// else is there is what the store, had it gone on, would have acknowledged.
func TestPowerLoss(t *testing.T) {
	for _, c := range []struct {
		name string
		keep int64 // HistoryRevisions
	}{{"history", 0}, {"compacting", 50}} {
		t.Run(c.name, func(t *testing.T) {
			seed := storetest.Seed(t)
			fs := vfs.NewCrashableMem()
			s := mustOpen(t, local.Churn(local.Options{Dir: "db", FS: fs, HistoryRevisions: c.keep}))
			l := newLedger()
			type crash struct {
				fs   vfs.FS
				must map[int64]acknowledged
			}
			var crashes []crash
			rng := rand.New(rand.NewPCG(seed, 99))
			at := rng.IntN(300)
			l.onAck = func() {
				if len(l.acked) < at || len(crashes) == 20 {
					return
				}
				at += 1 + rng.IntN(300)
				for range rng.IntN(4) {
					runtime.Gosched() // let what is under way come a little further
				}
				cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng}
				must := maps.Clone(l.acked)
				crashes = append(crashes, crash{fs.CrashClone(cfg), must})
			}
			var writing sync.WaitGroup
			for i := range 4 {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				writing.Go(func() {
					if err := l.write(t, s, rng, fmt.Sprint(i), 1500); err != nil {
						t.Error(err)
					}
				})
			}
			writing.Wait()
			if len(crashes) < 3 {
				t.Fatalf("only %d crashes were tried", len(crashes))
			}
			for i, c := range crashes {
				s, err := local.Open(local.Options{Dir: "db", FS: c.fs})
				if err != nil {
					t.Fatalf("crash %d: %v", i, err)
				}
				l.check(t, s, c.must)
				r := mustPut(t, s, "/after", "x")
				for rev := range c.must {
					if rev >= r.Revision {
						t.Errorf("crash %d: revision %d is used again for %d", i, rev, r.Revision)
					}
				}
				if err := s.Close(); err != nil {
					t.Errorf("crash %d: %v", i, err)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

var errDisk = errors.New("the disk is broken")

// freshLogs makes a new file where Pebble would write over an old log: errorfs
// injects nothing into files that are used again.
type freshLogs struct{ *errorfs.FS }

func (f freshLogs) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, c)
}

// The log cannot be written, synced or begun: nothing of that batch or after is
// acknowledged, reads go on, and what was acknowledged before is there when
// the store is opened again.
func TestDiskFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  errorfs.OpKind
		files string // what their names end with
		among int64  // the failure is one of the first so many
	}{
		{"write", errorfs.OpFileWrite, ".log", 300},
		{"sync", errorfs.OpFileSyncData, ".log", 300},
		{"create", errorfs.OpCreate, ".log", 5},
		{"table", errorfs.OpCreate, ".sst", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := storetest.Seed(t)
			rng := rand.New(rand.NewPCG(seed, 7))
			mem := vfs.NewCrashableMem()
			var countdown atomic.Int64
			var armed, hit atomic.Bool
			countdown.Store(1 + rng.Int64N(c.among))
			fs := freshLogs{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed.Load() && op.Kind == c.kind && strings.HasSuffix(op.Path, c.files) && countdown.Add(-1) <= 0 {
					hit.Store(true)
					return errDisk
				}
				return nil
			}))}
			s, err := local.Open(local.Churn(local.Options{Dir: "db", FS: fs, HistoryRevisions: 50}))
			if err != nil {
				t.Fatal(err)
			}
			mustPut(t, s, "/kept", "x")
			if err := s.Failed(); err != nil {
				t.Errorf("a healthy store says %v", err)
			}
			armed.Store(true)
			l := newLedger()
			if err := l.ack(2, "/kept", "x"); err != nil {
				t.Fatal(err)
			}
			var writing sync.WaitGroup
			for i := range 4 {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				writing.Go(func() {
					err := l.write(t, s, rng, fmt.Sprint(i), 1000)
					if hit.Load() != (err != nil) {
						t.Errorf("the disk failed: %v; the writes ended with %v", hit.Load(), err)
					}
				})
			}
			writing.Wait()
			if !hit.Load() {
				t.Fatal("the disk did not fail, so nothing was tested")
			}
			_, err = s.Put(t.Context(), store.Put{Key: "/k/1", Expect: store.Any})
			if !errors.Is(err, errDisk) && !strings.Contains(fmt.Sprint(err), errDisk.Error()) {
				t.Errorf("a later write says %v, want the reason", err)
			}
			if _, err := s.Delete(t.Context(), "/kept", store.Any); err == nil {
				t.Error("a later delete was taken")
			}
			if err := s.Failed(); !errors.Is(err, errDisk) && !strings.Contains(fmt.Sprint(err), errDisk.Error()) {
				t.Errorf("the store says of its health %v, want the reason", err)
			}
			if r, _, err := s.Get(t.Context(), "/kept"); r == nil || err != nil {
				t.Errorf("read after the failure: %v, %v", r, err)
			}
			must := l.copyAcked()
			clone := mem.CrashClone(vfs.CrashCloneCfg{})
			t.Log("close:", s.Close())

			again := mustOpen(t, local.Options{Dir: "db", FS: clone})
			l.check(t, again, must)
			mustPut(t, again, "/after", "x")
		})
	}
}

// A disk without room for the tables that opening has to write: Open says so and
// does not wait for room, and what was acknowledged is there once there is room.
func TestOpenWithoutRoom(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := mustOpen(t, local.Options{Dir: "db", FS: mem})
	for i := range 100 {
		mustPut(t, s, fmt.Sprintf("/k/%d", i), "x")
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	var full atomic.Bool
	full.Store(true)
	fs := errorfs.Wrap(crashed, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return errDisk
		}
		return nil
	}))
	if _, err := local.Open(local.Options{Dir: "db", FS: fs}); !errors.Is(err, errDisk) && !strings.Contains(fmt.Sprint(err), errDisk.Error()) {
		t.Errorf("opened on a full disk: %v", err)
	}
	roomy := crashed.CrashClone(vfs.CrashCloneCfg{})
	full.Store(false) // so that the open that was given up comes to its end
	again := mustOpen(t, local.Options{Dir: "db", FS: roomy})
	for i := range 100 {
		if r, _, err := again.Get(t.Context(), fmt.Sprintf("/k/%d", i)); r == nil || err != nil {
			t.Fatalf("key %d: %v, %v", i, r, err)
		}
	}
}

// A writer that gives up waiting does not hold anything up.
func TestAbandonedWrite(t *testing.T) {
	block := make(chan struct{})
	s := mustOpen(t, local.Options{})
	go s.Put(t.Context(), store.Put{Key: "/slow", Fill: func(int64) ([]byte, any) {
		<-block
		return nil, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Put(ctx, store.Put{Key: "/a", Value: []byte("x")})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(block)
	mustPut(t, s, "/b", "x")
}
