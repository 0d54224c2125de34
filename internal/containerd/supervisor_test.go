package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A daemon that cannot start is not tried for ever, and the error says why.
func TestRunGivesUpWithTheReason(t *testing.T) {
	i := newInstance(t, "broken")
	database := filepath.Join(i.layout().root(), "io.containerd.metadata.v1.bolt", "meta.db")
	if err := os.MkdirAll(database, 0o755); err != nil { // a folder where a file belongs
		t.Fatal(err)
	}
	s, err := New(i.options)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(i.context())
	if err == nil {
		t.Fatal("Run returns no error")
	}
	for _, want := range []string{"does not start", "meta.db", i.layout().log()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v; want it to tell %q", err, want)
		}
	}
	select {
	case <-s.Ready():
		t.Error("it is ready though")
	default:
	}
}

func TestOneSupervisorAtATime(t *testing.T) {
	i := newInstance(t, "once")
	stop := i.run()
	second, err := New(i.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(i.context()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second Run: %v, want that the instance is in use", err)
	}
	stop()
	i.run()
}

func TestRunEndsBeforeReady(t *testing.T) {
	i := newInstance(t, "early")
	s, err := New(i.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	// Whatever that left is taken over.
	i.run()
	i.daemonPID()
}

func TestPruneKeepsWhatIsInUse(t *testing.T) {
	i := newInstance(t, "prune")
	l := i.layout()
	bin := filepath.Join(l.data, "bin")
	old := filepath.Join(bin, "0123456789abcdef")
	leftover := filepath.Join(bin, ".unpack-1")
	fresh := filepath.Join(bin, ".unpack-2")
	other := filepath.Join(bin, "other")
	mkdir := func(dirs ...string) {
		t.Helper()
		for _, dir := range dirs {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	mkdir(old, leftover, fresh, other)
	hours := time.Now().Add(-3 * abandoned)
	if err := os.Chtimes(leftover, hours, hours); err != nil {
		t.Fatal(err)
	}
	stop := i.run()
	for dir, want := range map[string]bool{old: false, leftover: false, fresh: true, other: true} {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) == want {
			t.Errorf("%s: %v; want it there: %v", dir, err, want)
		}
	}
	i.pod("web")
	mkdir(old)
	stop()
	i.run()
	if _, err := os.Stat(old); err != nil {
		t.Errorf("with a container running an older version was removed: %v", err)
	}
}
