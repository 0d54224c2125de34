package containerd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// cniResults is where the CNI library of every runtime on the machine notes
// what plugins answered, until the pod's network is taken down. Its place
// cannot be configured in containerd.
const cniResults = "/var/lib/cni/results"

// forgetNetworks removes the notes about pods of the instance that are gone
// without having been stopped. They are told by the path of their network
// namespace, which is below run.
func forgetNetworks(results, run string) error {
	entries, err := os.ReadDir(results)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(results, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			continue // another runtime's, and gone meanwhile
		}
		var note struct{ NetNS string }
		if json.Unmarshal(data, &note) != nil || !strings.HasPrefix(note.NetNS, run+"/") {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
