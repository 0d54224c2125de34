package bundle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/setpoint-project/setpoint/internal/containerd/bundle/archive"
)

// Unpack makes dir hold the entries for which want is true, and returns once
// it does. Dir appears complete or not at all, so any number of callers may
// unpack to the same dir at once: one of them wins and the others use its
// work. A dir that is there but not whole (a file missing or of another size,
// as after a loss of power) is replaced.
func (b *Bundle) Unpack(dir string, want func(name string) bool) error {
	var entries []archive.Entry
	for _, e := range b.Entries {
		if want(e.Name) {
			entries = append(entries, e)
		}
	}
	if intact(dir, entries) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	// The name begins with a dot so that a leftover is never taken for a result.
	temporary, err := os.MkdirTemp(parent, ".unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	fresh := filepath.Join(temporary, "new")
	if err := b.extract(fresh, entries); err != nil {
		return fmt.Errorf("unpack to %s: %w", dir, err)
	}
	for range 3 {
		err = os.Rename(fresh, dir)
		if !errors.Is(err, syscall.EEXIST) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
		if intact(dir, entries) {
			return nil
		}
		// Set aside, not deleted in place: programs may be running from it.
		if err := os.Rename(dir, filepath.Join(temporary, "old")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return err
}

// intact looks at sizes and modes only. Content was checked against its hash
// when it was written; reading 60 MB again at each start would guard against
// a disk that lies, at the cost of every start.
func intact(dir string, entries []archive.Entry) bool {
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(e.Name)))
		if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size || uint32(info.Mode().Perm()) != e.Mode {
			return false
		}
	}
	return len(entries) > 0
}

// extract writes the entries under dir, two at a time: decompression is bound
// by the processor, and more than two would take it away from a starting
// server.
func (b *Bundle) extract(dir string, entries []archive.Entry) error {
	var (
		group sync.WaitGroup
		slots = make(chan struct{}, 2)
		errs  = make([]error, len(entries))
	)
	for i, e := range entries {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = b.extractEntry(dir, e)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (b *Bundle) extractEntry(dir string, e archive.Entry) error {
	path := filepath.Join(dir, filepath.FromSlash(e.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	content, err := archive.Open(b.Archive, e)
	if err != nil {
		return err
	}
	defer content.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(e.Mode))
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		file.Close()
		return err
	}
	// The creation mode went through the umask; what is packed is for all.
	if err := file.Chmod(os.FileMode(e.Mode)); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
