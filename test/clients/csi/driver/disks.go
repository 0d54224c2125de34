package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// disks is the folder of disks, as one node sees it.
type disks struct{ dir, node string }

// disk is what is written down of a disk, or of a snapshot of one.
type disk struct {
	ID         string
	Size       int64
	Block      bool              `json:",omitempty"`
	Parameters map[string]string `json:",omitempty"` // mutable ones
	Of         string            `json:",omitempty"` // the disk that a snapshot is of
	// By node: what its controller was asked for, and its node service.
	Attached, Staged map[string]bool `json:",omitempty"`
}

func (d disks) path(parts ...string) string {
	return filepath.Join(append([]string{d.dir}, parts...)...)
}

func (d disks) data(id string) string  { return d.path("data", id) }
func (d disks) image(id string) string { return filepath.Join(d.data(id), "image") }

func (d disks) prepare() error {
	return errors.Join(os.MkdirAll(d.path("data"), 0o755), os.MkdirAll(d.path("disks"), 0o755), os.MkdirAll(d.path("snapshots"), 0o755))
}

// lock keeps the drivers of other nodes out.
func (d disks) lock() (unlock func(), err error) {
	f, err := os.OpenFile(d.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// find reads a disk ("disks") or a snapshot; nil: there is none.
func (d disks) find(kind, id string) (*disk, error) {
	b, err := os.ReadFile(d.path(kind, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	v := &disk{}
	return v, json.Unmarshal(b, v)
}

// get is find for what must be there.
func (d disks) get(kind, id string) (*disk, error) {
	v, err := d.find(kind, id)
	if err == nil && v == nil {
		err = status.Errorf(codes.NotFound, "no %s in %s", id, kind)
	}
	return v, err
}

func (d disks) put(kind string, v *disk) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := d.path(kind, v.ID)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (d disks) remove(kind, id string) error {
	if err := os.RemoveAll(d.data(id)); err != nil {
		return err
	}
	if err := os.Remove(d.path(kind, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// called takes down a call that changes something.
func (d disks) called(call, id string) error { return d.append("calls", d.node+" "+call+" "+id) }

// blame takes down what a caller did wrong, and refuses it.
func (d disks) blame(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if err := d.append("wrong", d.node+": "+text); err != nil {
		return err
	}
	return status.Error(codes.FailedPrecondition, text)
}

func (d disks) append(file, line string) error {
	f, err := os.OpenFile(d.path(file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}
