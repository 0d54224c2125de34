package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
}

const (
	dataLink = "..data"
	tmpLink  = "..data_tmp"
)

// writeFiles makes the files of a volume what they should be, all at once. A
// reader sees the old files or the new ones, never some of each:
//
//	dir/..2026_11_29_17_00_00.123/a/b   the files
//	dir/..data -> ..2026_11_29_...      changed by one rename
//	dir/a -> ..data/a                   what the container opens
//
// When nothing differs nothing is written.
func writeFiles(dir string, files map[string]File, group *int64) error {
	for name := range files {
		if err := clean(name); err != nil {
			return err
		}
		if strings.HasPrefix(name, "..") {
			return fmt.Errorf("path %q must not start with '..'", name)
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && same(filepath.Join(dir, old), files, group) {
		return links(dir, files)
	}
	fresh, err := os.MkdirTemp(dir, "..data-")
	if err != nil {
		return err
	}
	if err := fill(fresh, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	tmp := filepath.Join(dir, tmpLink)
	_ = os.Remove(tmp) // left by a crash
	if err := os.Symlink(filepath.Base(fresh), tmp); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := links(dir, files); err != nil {
		return err
	}
	return tidy(dir, filepath.Base(fresh))
}

func fill(dir string, files map[string]File, group *int64) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			return err
		}
		if group != nil {
			if err := os.Chown(path, -1, int(*group)); err != nil {
				return err
			}
		}
		// Chmod and not the mode of the open: the mask of this process must
		// not narrow it.
		if err := os.Chmod(path, fileMode(f.Mode, group)); err != nil {
			return err
		}
	}
	return nil
}

// fileMode lets the pod's group read.
func fileMode(m fs.FileMode, group *int64) fs.FileMode {
	if group != nil {
		m |= 0o440
	}
	return m
}

// same tells whether a folder holds exactly these files.
func same(dir string, files map[string]File, group *int64) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, ok := files[name]
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !ok || string(data) != string(f.Data) || info.Mode().Perm() != fileMode(f.Mode, group).Perm() {
			return errDiffers
		}
		return nil
	})
	return err == nil && n == len(files)
}

var errDiffers = errors.New("differs")

// links makes the names that containers open: one for the first part of each
// path, and removes those that are no more.
func links(dir string, files map[string]File) error {
	want := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		want[first] = true
	}
	for name := range want {
		path := filepath.Join(dir, name)
		if to, err := os.Readlink(path); err == nil && to == filepath.Join(dataLink, name) {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, name), path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(e.Name(), "..") || want[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes the folders of files before these.
func tidy(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..data-") && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
