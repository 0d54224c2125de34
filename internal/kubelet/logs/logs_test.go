package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const sample = `2026-11-29T12:00:00.000000000Z stdout F one
2026-11-29T12:00:01.000000000Z stderr F two
2026-11-29T12:00:02.000000000Z stdout P thr
2026-11-29T12:00:02.000000000Z stdout F ee
2026-11-29T12:00:03.500000000Z stdout F four
not a line of this form
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"all":        {Options{}, "one\ntwo\nthree\nfour\nnot a line of this form\n"},
		"tail":       {Options{Tail: n(2)}, "four\nnot a line of this form\n"},
		"tail all":   {Options{Tail: n(100)}, "one\ntwo\nthree\nfour\nnot a line of this form\n"},
		"tail none":  {Options{Tail: n(0)}, ""},
		"limit":      {Options{Limit: n(6)}, "one\ntw"},
		"since":      {Options{Since: time.Date(2026, 11, 29, 12, 0, 2, 0, time.UTC), Limit: n(11)}, "three\nfour\n"},
		"timestamps": {Options{Timestamps: true, Tail: n(4), Limit: n(73)}, "2026-11-29T12:00:02.000000000Z three\n2026-11-29T12:00:03.500000000Z four\n"},
	} {
		var out strings.Builder
		if err := Read(t.Context(), write(t, sample), c.o, &out, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", name, out.String(), c.want)
		}
	}
	if err := Read(t.Context(), filepath.Join(t.TempDir(), "none"), Options{}, nil, nil); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// lockedBuilder collects what a follower writes.
type lockedBuilder struct {
	mu  sync.Mutex
	b   strings.Builder
	got chan struct{}
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.got <- struct{}{} }()
	return l.b.Write(p)
}

// A follower sees what is written later, also after the file was rotated, and
// ends with the container.
func TestFollow(t *testing.T) {
	path := write(t, "2026-11-29T12:00:00Z stdout F 0\n")
	out := &lockedBuilder{got: make(chan struct{}, 10)}
	var alive atomic.Bool
	alive.Store(true)
	done := make(chan error, 1)
	go func() {
		done <- Read(context.Background(), path, Options{Follow: true, Alive: alive.Load}, out, out)
	}()
	<-out.got
	add := func(n int) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "2026-11-29T12:00:00Z stdout F %d\n", n)
		f.Close()
	}
	add(1)
	<-out.got
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(2)
	<-out.got
	add(3)
	alive.Store(false)
	<-out.got
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := out.b.String(); got != "0\n1\n2\n3\n" {
		t.Errorf("followed %q", got)
	}
}

func TestRotate(t *testing.T) {
	path := write(t, strings.Repeat("x", maxSize))
	dir := filepath.Dir(path)
	for i := range 6 { // older files, one more than are kept
		if err := os.WriteFile(fmt.Sprintf("%s.20200101-00000%d", path, i), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reopened := false
	if err := Rotate(path, func() error {
		reopened = true
		return os.WriteFile(path, nil, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	if !reopened {
		t.Error("the runtime was not told")
	}
	if got := Files(path); len(got) != maxFiles {
		t.Errorf("files are %v", got)
	}
	if gz, _ := filepath.Glob(filepath.Join(dir, "*.gz")); len(gz) != maxFiles-2 {
		t.Errorf("compressed are %v", gz)
	}
	// When the runtime cannot reopen, nothing is lost.
	if err := os.WriteFile(path, []byte(strings.Repeat("y", maxSize)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Rotate(path, func() error { return fmt.Errorf("no") }); err == nil {
		t.Error("no error")
	}
	if info, err := os.Stat(path); err != nil || info.Size() != maxSize {
		t.Errorf("after a failed rotation: %v, %v", info, err)
	}
}
