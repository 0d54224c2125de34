package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// record is what is written down of a volume before its driver is asked.
type record struct {
	Driver string `json:"driver"`
	Handle string `json:"volumeHandle"`
	// Volume is the PersistentVolume; empty for one in the pod's spec.
	Volume string `json:"persistentVolume,omitempty"`
	// Name is that of the pod's volume; empty when it is staged.
	Name string `json:"podVolume,omitempty"`
	// Attach: the driver's volumes are attached to nodes.
	Attach bool `json:"attach,omitempty"`
	Block  bool `json:"block,omitempty"`
	// Boot is the start of the machine in which the driver was asked.
	Boot string `json:"boot"`
	// Done: the driver did it.
	Done bool `json:"done,omitempty"`
	// Size is that of the volume here, in bytes, when it was last known to be whole
	// here; Refused is one that the driver does not make it while it is in use.
	Size    int64 `json:"size,omitempty"`
	Refused int64 `json:"refused,omitempty"`

	dir string // that it lies in
}

func (r *record) id() id { return id{r.Driver, r.Handle} }

// target is where a driver is asked to publish.
func (r *record) target() string { return filepath.Join(r.dir, "mount") }

// staging is where it is asked to stage.
func (r *record) staging() string { return filepath.Join(r.dir, "globalmount") }

const recordFile = "vol_data.json"

// save writes a record, whole or not at all. What a kill leaves of it has a
// name that remove knows, unlike what pki.WriteFile would leave.
func (r *record) save() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		return err
	}
	path := filepath.Join(r.dir, recordFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load reads the record in a folder; nil: there is none.
func load(dir string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	r := &record{dir: dir}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// remove takes the record and its folder away, once what the driver had in it,
// at path, is not mounted any more. The record goes last but for the folder.
func (r *record) remove(path string) error {
	for _, p := range []string{path, filepath.Join(r.dir, recordFile+".new"), filepath.Join(r.dir, recordFile), r.dir} {
		// A folder that is not empty, or mounted, holds somebody's data.
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.opts.Root, "pods", string(uid), "volumes", "kubernetes.io~csi")
}

// published are the records of a pod.
func (m *Manager) published(uid types.UID) ([]*record, error) { return loadAll(m.podDir(uid)) }

// publication is the record of a pod's volume; nil: there is none.
func (m *Manager) publication(uid types.UID, name string) (*record, error) {
	all, err := m.published(uid)
	for _, r := range all {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, err
}

func (m *Manager) stagingDir(v id) string {
	return filepath.Join(m.opts.Root, "plugins", "kubernetes.io", "csi", v.driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.handle))))
}

// loadAll reads the records in the folders of a folder.
func loadAll(dir string) (all []*record, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, err := load(filepath.Join(dir, e.Name()))
		if r != nil {
			all = append(all, r)
		}
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// remember reads what was written down before this start.
func (m *Manager) remember() error {
	var errs []error
	pods, err := os.ReadDir(filepath.Join(m.opts.Root, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, p := range pods {
		all, err := m.published(types.UID(p.Name()))
		errs = append(errs, err)
		for _, r := range all {
			m.know(r.id(), r.Attach).users[types.UID(p.Name())] = true
		}
	}
	drivers, err := os.ReadDir(filepath.Join(m.opts.Root, "plugins", "kubernetes.io", "csi"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, d := range drivers {
		all, err := loadAll(filepath.Join(m.opts.Root, "plugins", "kubernetes.io", "csi", d.Name()))
		errs = append(errs, err)
		for _, r := range all {
			m.know(r.id(), r.Attach).staged = true
		}
	}
	return errors.Join(errs...)
}
