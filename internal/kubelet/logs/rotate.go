package logs

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"
)

const (
	// maxSize of a log file before it is rotated, and how many files of one
	// container are kept, this one counted: upstream's defaults.
	maxSize  = 10 << 20
	maxFiles = 5
)

// Files are the files of one log: the current one and those rotated.
func Files(path string) []string {
	rotated, err := filepath.Glob(path + ".*")
	if err != nil {
		return []string{path}
	}
	sort.Strings(rotated)
	return append(rotated, path)
}

// Rotate rotates the log at path when it is too large: the file gets a name
// with the time, reopen makes the runtime begin a new one, and older files are
// compressed, the oldest removed.
func Rotate(path string, reopen func() error) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Killed between rename and reopen: the runtime still writes to the
		// old file.
		if len(Files(path)) > 1 {
			return reopen()
		}
		return nil
	} else if err != nil {
		return err
	}
	if info.Size() < maxSize {
		return nil
	}
	old := Files(path)
	old = old[:len(old)-1]
	for len(old) > maxFiles-2 {
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	for _, f := range old {
		if filepath.Ext(f) != ".gz" {
			if err := compress(f); err != nil {
				return err
			}
		}
	}
	to := fmt.Sprintf("%s.%s", path, time.Now().UTC().Format("20060102-150405"))
	if err := os.Rename(path, to); err != nil {
		return err
	}
	if err := reopen(); err != nil {
		return errors.Join(err, os.Rename(to, path)) // as it was
	}
	return nil
}

func compress(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := path + ".tmp"
	out, err := os.Create(tmp)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	if err = errors.Join(err, z.Close(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path+".gz"); err != nil {
		return err
	}
	return os.Remove(path)
}
