package localpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/setpoint-project/setpoint/internal/mounts"
)

// Disk makes and removes the folders of volumes. Its methods are idempotent.
type Disk interface {
	// Make makes a folder that everybody may write in. What is there stays.
	Make(path string) error
	// Remove removes a folder with all that is in it.
	Remove(path string) error
	// Prune removes a folder that is empty; another stays.
	Prune(path string)
	// List lists the paths of what is in a folder, which need not be there.
	List(folder string) ([]string, error)
}

// Host is the Disk of this machine.
type Host struct{}

// Make implements Disk. The folder is on the disk when it returns: a machine
// that fails does not take it back.
func (Host) Make(path string) error {
	parent := filepath.Dir(path)
	// Pods get at their volumes by mounts; others have no business there.
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(path)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", path)
		}
		return err
	}
	if err != nil {
		return err
	}
	// The mask of this process must not narrow what a pod may do.
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Remove implements Disk. It refuses while something is mounted below: what
// lies in a mount is not the volume's.
func (Host) Remove(path string) error {
	below, err := mounts.Below(path)
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return fmt.Errorf("%s is still mounted", below[0].Path)
	}
	return os.RemoveAll(path)
}

// Prune implements Disk.
func (Host) Prune(path string) { _ = os.Remove(path) }

// List implements Disk.
func (Host) List(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(folder, e.Name()))
	}
	return out, err
}

// Nowhere is the Disk of simulated nodes.
type Nowhere struct{}

// Make implements Disk.
func (Nowhere) Make(string) error { return nil }

// Remove implements Disk.
func (Nowhere) Remove(string) error { return nil }

// Prune implements Disk.
func (Nowhere) Prune(string) {}

// List implements Disk.
func (Nowhere) List(string) ([]string, error) { return nil, nil }
