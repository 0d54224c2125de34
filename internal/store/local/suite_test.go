package local_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
	"github.com/setpoint-project/setpoint/internal/store/storetest"
)

func TestSuiteMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return mustOpen(t, local.Options{})
	})
}

func TestSuiteDisk(t *testing.T) {
	dirs := map[store.Store]string{}
	open := func(t *testing.T, dir string) store.Store {
		s := mustOpen(t, local.Options{Dir: dir})
		dirs[s] = dir
		return s
	}
	storetest.RunDurable(t,
		func(t *testing.T) store.Store { return open(t, t.TempDir()) },
		func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, dirs[s])
		})
}

// Random operations with a log so short that most of the past comes from disk,
// on a file system in memory, where opening again costs little.
func TestRandomDisk(t *testing.T) {
	o := local.WithLog(local.Options{Dir: "db", FS: vfs.NewMem()}, 1, 1<<20)
	open := func() store.Store { return mustOpen(t, o) }
	storetest.Random(t, open(), func(t *testing.T, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open()
	}, storetest.Seed(t), 6000)
}

// The watch cases when a watch is soon behind the log.
func TestSuiteShortLog(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return mustOpen(t, local.WithLog(local.Options{Dir: "db", FS: vfs.NewMem()}, 1, 1<<20))
	})
}
