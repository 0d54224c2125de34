package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// abandoned is the age from which the folder of an unpacking is taken for one
// that was interrupted.
const abandoned = time.Hour

// prune removes unpacked runtimes other than keep, and what interrupted
// unpacking left. It does so only while no shim of the instance runs: a
// container needs the programs it was started with until it is gone.
func (l layout) prune(keep Paths) error {
	shims, err := findProcesses(l.isShim)
	if err != nil {
		return err
	}
	for _, p := range shims {
		p.close()
	}
	if len(shims) > 0 {
		return nil
	}
	parent := filepath.Dir(keep.Dir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		old := isVersion(e.Name()) && path != keep.Dir
		if strings.HasPrefix(e.Name(), ".unpack-") {
			info, err := e.Info()
			old = err == nil && time.Since(info.ModTime()) > abandoned
		}
		if old {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// isVersion tells whether a folder's name is one that Unpack gives.
func isVersion(name string) bool {
	return len(name) == hashLength && strings.Trim(name, "0123456789abcdef") == ""
}
