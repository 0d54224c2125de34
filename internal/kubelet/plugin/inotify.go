package plugin

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// folders tells when something in folders changes. What changed is not asked:
// whoever is told reads them.
type folders struct {
	file *os.File

	mu      sync.Mutex
	watched map[string]bool  // guarded by mu; those that are gone are taken out
	byID    map[int32]string // guarded by mu; the same, by the kernel's number
}

const changes = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR

// watch begins to watch a folder.
func watch(dir string) (*folders, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	f := &folders{file: os.NewFile(uintptr(fd), "inotify"), watched: map[string]bool{}, byID: map[int32]string{}}
	if err := f.one(dir); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *folders) one(dir string) error {
	raw, err := f.file.SyscallConn()
	if err != nil {
		return err
	}
	// The lock is held from before the watch is there: run must not take the
	// news that it is gone for older than the watch.
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed error
	err = raw.Control(func(fd uintptr) {
		id, err := unix.InotifyAddWatch(int(fd), dir, changes)
		if err != nil {
			failed = os.NewSyscallError("inotify_add_watch", err)
			return
		}
		f.watched[dir], f.byID[int32(id)] = true, dir
	})
	if err != nil {
		return err
	}
	return failed
}

// add watches further folders and tells whether there was one. A folder that
// cannot be watched is gone, or its parent tells of it when it is.
func (f *folders) add(dirs []string) (news bool) {
	for _, dir := range dirs {
		f.mu.Lock()
		known := f.watched[dir]
		f.mu.Unlock()
		if !known && f.one(dir) == nil {
			news = true
		}
	}
	return news
}

// run calls tell after changes, until close.
func (f *folders) run(tell func()) {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.file.Read(buf)
		if err != nil {
			return
		}
		f.forget(buf[:n])
		tell()
	}
}

// forget takes out the folders that the kernel watches no more.
func (f *folders) forget(events []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		// struct inotify_event: wd, mask, cookie, len, then a name of len bytes.
		id, mask, size := int32(word(events)), word(events[4:]), word(events[12:])
		if mask&unix.IN_IGNORED != 0 {
			delete(f.watched, f.byID[id])
			delete(f.byID, id)
		}
		events = events[min(len(events), unix.SizeofInotifyEvent+int(size)):]
	}
}

func word(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// close ends the watch; it may be called again.
func (f *folders) close() { _ = f.file.Close() }
