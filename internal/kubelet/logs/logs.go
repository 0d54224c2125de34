// Package logs reads the log files that the runtime writes for containers, one
// line "TIME STREAM TAG TEXT" for each line or part of one, and rotates them.
//
// Concurrency: Read may be called from many goroutines; the runtime appends
// and the kubelet rotates meanwhile.
//
// Failure: a line that is not of that form is passed on as it is.
package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options of Read.
type Options struct {
	Follow     bool
	Timestamps bool
	Since      time.Time // zero: from the beginning
	Tail       *int64    // only so many lines at the end
	Limit      *int64    // bytes at most
	// Alive tells, for Follow, whether the container may still write.
	Alive func() bool
}

// poll is how often a followed file is looked at: a log is read by people.
const poll = 100 * time.Millisecond

// stamp is the form of times before lines: of fixed width, so that they align.
const stamp = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit ends a Read that has given all it may.
var errLimit = errors.New("limit reached")

// Read writes the log file at path to stdout and stderr. With Follow it goes
// on until the container is dead or ctx ends.
func Read(ctx context.Context, path string, o Options, stdout, stderr io.Writer) error {
	f, err := open(ctx, path, o)
	if err != nil {
		return err
	}
	defer func() { f.Close() }()
	if o.Tail != nil {
		at, err := tail(f, *o.Tail)
		if err != nil {
			return err
		}
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
	w := &writer{o: o, out: map[string]io.Writer{"stdout": stdout, "stderr": stderr}, left: -1}
	if o.Limit != nil {
		w.left = *o.Limit
	}
	r := bufio.NewReader(f)
	var part []byte
	last := false // the container was seen dead: read to the end once more
	for {
		line, err := r.ReadBytes('\n')
		part = append(part, line...)
		if err == nil {
			if err := w.line(part); errors.Is(err, errLimit) {
				return nil
			} else if err != nil {
				return err
			}
			part = part[:0]
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if !o.Follow || last {
			if len(part) > 0 {
				if err := w.line(part); err != nil && !errors.Is(err, errLimit) {
					return err
				}
			}
			return nil
		}
		if next := rotated(f, path); next != nil && len(part) == 0 {
			f.Close()
			f = next
			r.Reset(f)
			continue
		} else if next != nil {
			next.Close()
		}
		if last = o.Alive != nil && !o.Alive(); last {
			continue
		}
		if flush, ok := stdout.(interface{ Flush() }); ok {
			flush.Flush()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(poll):
		}
	}
}

// open opens the file; a followed one may not be there yet, between rotation
// and the runtime's reopening.
func open(ctx context.Context, path string, o Options) (*os.File, error) {
	for {
		f, err := os.Open(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) || !o.Follow || o.Alive == nil || !o.Alive() {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(poll):
		}
	}
}

// rotated is the file that took the place of f, or nil.
func rotated(f *os.File, path string) *os.File {
	now, err := os.Stat(path)
	if err != nil {
		return nil
	}
	mine, err := f.Stat()
	if err != nil || os.SameFile(mine, now) {
		return nil
	}
	next, err := os.Open(path)
	if err != nil {
		return nil
	}
	return next
}

type writer struct {
	o    Options
	out  map[string]io.Writer
	left int64 // bytes; below 0: no limit
	// begun: the line before was a part without end, so this one goes on.
	begun map[string]bool
}

// line writes one line of the file.
func (w *writer) line(raw []byte) error {
	at, stream, partial, text, ok := parse(raw)
	if !ok {
		return w.emit(w.out["stdout"], raw)
	}
	out := w.out[stream]
	if out == nil || at.Before(w.o.Since) {
		return nil
	}
	if w.begun == nil {
		w.begun = map[string]bool{}
	}
	if w.o.Timestamps && !w.begun[stream] {
		text = append([]byte(at.Format(stamp)+" "), text...)
	}
	w.begun[stream] = partial
	if partial {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return w.emit(out, text)
}

func (w *writer) emit(out io.Writer, b []byte) error {
	if w.left == 0 {
		return errLimit
	}
	if w.left > 0 {
		b = b[:min(int64(len(b)), w.left)]
		w.left -= int64(len(b))
	}
	_, err := out.Write(b)
	if err == nil && w.left == 0 {
		return errLimit
	}
	return err
}

// parse takes a line of the file apart; text keeps its newline.
func parse(raw []byte) (at time.Time, stream string, partial bool, text []byte, ok bool) {
	when, rest, ok1 := bytes.Cut(raw, []byte(" "))
	s, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tag, text, ok3 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 {
		return at, "", false, nil, false
	}
	if !ok3 {
		tag, text = bytes.TrimSuffix(rest, []byte("\n")), []byte("\n")
	}
	at, err := time.Parse(time.RFC3339Nano, string(when))
	if err != nil || string(s) != "stdout" && string(s) != "stderr" {
		return at, "", false, nil, false
	}
	first, _, _ := bytes.Cut(tag, []byte(":"))
	return at, string(s), string(first) == "P", text, true
}

// tail is where the last n lines of a file begin.
func tail(f *os.File, n int64) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return end, nil
	}
	const block = 4096
	buf := make([]byte, block)
	seen := int64(0)
	for at := end; at > 0; {
		size := min(at, block)
		at -= size
		if _, err := f.ReadAt(buf[:size], at); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] != '\n' || at+i == end-1 {
				continue
			}
			if seen++; seen == n {
				return at + i + 1, nil
			}
		}
	}
	return 0, nil
}
