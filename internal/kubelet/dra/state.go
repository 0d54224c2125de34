package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/setpoint-project/setpoint/internal/pki"
)

// claim is what is on disk of a claim that the node's pods use: a file each,
// named by the claim's uid, which is written whole or not at all.
type claim struct {
	UID       types.UID   `json:"uid"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Drivers   []string    `json:"drivers"`  // that were, or are being, asked
	Pods      []types.UID `json:"pods"`     // that use it here
	Prepared  bool        `json:"prepared"` // all drivers have answered
	Devices   []device    `json:"devices,omitempty"`
}

// device is a prepared device.
type device struct {
	Driver   string   `json:"driver"`
	Pool     string   `json:"pool"`
	Name     string   `json:"name"`
	Requests []string `json:"requests,omitempty"` // of the claim; none: it is for all
	CDI      []string `json:"cdi,omitempty"`      // names, as KIND=NAME
}

// requested tells whether a device is for a request of its claim; "": any.
func (d device) requested(request string) bool {
	return request == "" || len(d.Requests) == 0 || slices.ContainsFunc(d.Requests, func(r string) bool {
		return r == request || resourceclaim.BaseRequestRef(r) == request
	})
}

// record is a claim and the lock of those who change it.
type record struct {
	// turn is a lock with one slot: it is held while drivers are asked, and
	// whoever waits for it may be called off.
	turn chan struct{}
	// now is what is on disk; replaced by the holder of turn. A claim without
	// pods is in no file.
	now atomic.Pointer[claim]
}

func newRecord(c *claim) *record {
	r := &record{turn: make(chan struct{}, 1)}
	r.now.Store(c)
	return r
}

func (r *record) read() *claim { return r.now.Load() }

const extension = ".json"

func (m *Manager) dir() string { return filepath.Join(m.opts.Root, "dra") }

func (m *Manager) path(c *claim) string {
	return filepath.Join(m.dir(), string(c.UID)+extension)
}

// load reads what is on disk.
func (m *Manager) load() error {
	if err := os.MkdirAll(m.dir(), 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.dir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), extension) {
			continue // a file that was never finished
		}
		b, err := os.ReadFile(filepath.Join(m.dir(), e.Name()))
		if err != nil {
			return err
		}
		c := &claim{}
		if err := json.Unmarshal(b, c); err != nil {
			return fmt.Errorf("%s does not hold the state of a claim: %w", filepath.Join(m.dir(), e.Name()), err)
		}
		if string(c.UID)+extension != e.Name() {
			return fmt.Errorf("%s holds the state of another claim, %s", filepath.Join(m.dir(), e.Name()), c.UID)
		}
		m.claims[c.UID] = newRecord(c)
	}
	return nil
}

// save makes c what is on disk; called with r's turn.
func (m *Manager) save(r *record, c *claim) error {
	if len(c.Pods) == 0 {
		if err := os.Remove(m.path(c)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.now.Store(c)
		return nil
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := pki.WriteFile(m.path(c), b, 0o600, true); err != nil {
		return err
	}
	r.now.Store(c)
	return nil
}
