package local

import (
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardFS stands between Pebble and the file system and keeps errors of the
// write-ahead log from Pebble, which can only die of them: when a log cannot
// be closed on rotation it ends the whole process, reads and all.
//
// With the first error it remembers it, and from then on the logs on disk stay
// as they are, as if the process had died at that moment: writes and syncs do
// nothing, new logs are not made. That last matters, for only the newest log
// may have an unclean end. Pebble goes on unaware; disk.commit asks failed
// before it lets anything be acknowledged.
//
// Tables and the manifest are passed through untouched: what Pebble does about
// their errors is safe, and tried again. But a disk that takes no table takes no
// log for long either, so openPebble keeps these errors as well.
type guardFS struct {
	vfs.FS
	err atomic.Pointer[error]
}

func (g *guardFS) failed() error {
	if p := g.err.Load(); p != nil {
		return *p
	}
	return nil
}

// keep remembers err, if it is one and the first.
func (g *guardFS) keep(err error) {
	if err != nil {
		g.err.CompareAndSwap(nil, &err)
	}
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

func (g *guardFS) Unwrap() vfs.FS { return g.FS }

func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !isLog(name) {
		return g.FS.Create(name, c)
	}
	return g.log(func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *guardFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !isLog(newname) {
		return g.FS.ReuseForWrite(oldname, newname, c)
	}
	return g.log(func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, c) })
}

func (g *guardFS) log(open func() (vfs.File, error)) (vfs.File, error) {
	if g.failed() != nil {
		return noFile{}, nil
	}
	f, err := open()
	if err != nil {
		g.keep(err)
		return noFile{}, nil
	}
	return &guardFile{f, g}, nil
}

// guardFile is a log being written.
type guardFile struct {
	vfs.File
	g *guardFS
}

func (f *guardFile) do(op func() error) error {
	if f.g.failed() == nil {
		f.g.keep(op())
	}
	return nil
}

func (f *guardFile) Write(p []byte) (int, error) {
	return len(p), f.do(func() error { _, err := f.File.Write(p); return err })
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	return len(p), f.do(func() error { _, err := f.File.WriteAt(p, off); return err })
}

func (f *guardFile) Sync() error     { return f.do(f.File.Sync) }
func (f *guardFile) SyncData() error { return f.do(f.File.SyncData) }

func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	return full, f.do(func() (err error) { full, err = f.File.SyncTo(length); return err })
}

func (f *guardFile) Preallocate(off, length int64) error {
	return f.do(func() error {
		// Only for speed: a file system may know nothing of it.
		_ = f.File.Preallocate(off, length)
		return nil
	})
}

// Close always closes, for the descriptor's sake.
func (f *guardFile) Close() error {
	f.g.keep(f.File.Close())
	return nil
}

// Stat is asked of a log that is used again, for its old size.
func (f *guardFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.g.keep(err)
		return noFile{}, nil
	}
	return info, nil
}

// noFile is a log that is not there, and what Stat says of it.
type noFile struct{}

func (noFile) Close() error                            { return nil }
func (noFile) Read([]byte) (int, error)                { return 0, io.EOF }
func (noFile) ReadAt([]byte, int64) (int, error)       { return 0, io.EOF }
func (noFile) Write(p []byte) (int, error)             { return len(p), nil }
func (noFile) WriteAt(p []byte, _ int64) (int, error)  { return len(p), nil }
func (noFile) Preallocate(int64, int64) error          { return nil }
func (noFile) Stat() (vfs.FileInfo, error)             { return noFile{}, nil }
func (noFile) Sync() error                             { return nil }
func (noFile) SyncTo(int64) (fullSync bool, err error) { return true, nil }
func (noFile) SyncData() error                         { return nil }
func (noFile) Prefetch(int64, int64) error             { return nil }
func (noFile) Fd() uintptr                             { return vfs.InvalidFd }

func (noFile) Name() string           { return "" }
func (noFile) Size() int64            { return 0 }
func (noFile) Mode() fs.FileMode      { return 0 }
func (noFile) ModTime() time.Time     { return time.Time{} }
func (noFile) IsDir() bool            { return false }
func (noFile) Sys() any               { return nil }
func (noFile) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
