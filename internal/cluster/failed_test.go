package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// TestBlameDisk: an error of the disk is told from all others, at whatever
// depth, and says what to do.
func TestBlameDisk(t *testing.T) {
	at := func(no syscall.Errno) error {
		return fmt.Errorf("store: cannot open: %w", errors.Join(errors.New("first"), &fs.PathError{Op: "write", Path: "/d/MANIFEST", Err: no}))
	}
	for _, c := range []struct {
		err  error
		want string // of the cure; empty: not the disk's
	}{
		{at(syscall.ENOSPC), "give the disk space and start again"},
		{at(syscall.EDQUOT), "give the disk space and start again"},
		{at(syscall.EIO), "mend the disk and start again"},
		{at(syscall.EROFS), "mend the disk and start again"},
		{at(syscall.EACCES), ""},
		{at(syscall.EADDRINUSE), ""},
		{errors.New("no space left on device"), ""},
		{&StoreError{errors.New("a log that cannot be synced")}, "mend the disk and start again"},
	} {
		got := blameDisk(c.err)
		var disk *StoreError
		if is := errors.As(got, &disk); is != (c.want != "") || is && !strings.HasSuffix(got.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.err, got, c.want)
		}
		if !errors.Is(got, c.err) {
			t.Errorf("%v: the cause is lost in %v", c.err, got)
		}
	}
	if err := blameDisk(nil); err != nil {
		t.Errorf("no error at all became %v", err)
	}
	if again := blameDisk(blameDisk(at(syscall.ENOSPC))); strings.Count(again.Error(), "start again") != 1 {
		t.Errorf("blamed twice: %v", again)
	}
}
