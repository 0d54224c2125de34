package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// StoreError says that the disk failed, while the cluster ran or before it
// could open: it is full, for instance, and a write could not be made durable.
// The process ends then, for nothing but opening the store again mends it;
// containers run on.
type StoreError struct{ Cause error }

func (e *StoreError) Error() string {
	cure := "mend the disk"
	if isAny(e.Cause, full) {
		cure = "give the disk space"
	}
	return fmt.Sprintf("%v. What was acknowledged before is safe and containers run on: %s and start again", e.Cause, cure)
}

func (e *StoreError) Unwrap() error { return e.Cause }

// What the kernel says of a disk that is full, or that fails.
var (
	full   = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}
	broken = []syscall.Errno{syscall.EIO, syscall.EROFS}
)

func isAny(err error, list []syscall.Errno) bool {
	return slices.ContainsFunc(list, func(no syscall.Errno) bool { return errors.Is(err, no) })
}

// blameDisk makes a StoreError of an error for which the disk is to blame.
func blameDisk(err error) error {
	var known *StoreError
	if !errors.As(err, &known) && (isAny(err, full) || isAny(err, broken)) {
		return &StoreError{err}
	}
	return err
}

// untilFailed returns when the store has failed, or ctx ends.
func untilFailed(ctx context.Context, failed func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := failed(); err != nil {
			return &StoreError{err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
