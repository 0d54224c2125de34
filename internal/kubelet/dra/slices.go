package dra

import (
	"context"
	"errors"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

const (
	// absence is how long a driver may be away, to be replaced by a newer one
	// say, until its ResourceSlices are removed. Upstream waits as long.
	absence = 30 * time.Second
	again   = 5 * time.Second
)

// Run removes the ResourceSlices of the node's drivers that are gone, until ctx
// ends. What drivers that the kubelet before this one knew have left is looked
// at once, after as long as a driver may be away.
func (m *Manager) Run(ctx context.Context) {
	defer m.closeAll()
	due := time.Now().Add(absence) // of a look at all slices
	for {
		gone, next := m.gone()
		if now := time.Now(); !due.IsZero() && !now.Before(due) || len(gone) > 0 {
			err := m.removeSlices(ctx)
			if ctx.Err() == nil {
				m.stay(err)
			}
			if err == nil {
				due = time.Time{}
				m.forget(gone)
				continue
			} else if ctx.Err() == nil {
				m.opts.Logger.Info("slices of drivers that are gone stay", "error", err)
			}
			next = now.Add(again)
		} else if next.IsZero() || !due.IsZero() && due.Before(next) {
			next = due
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer:
		}
	}
}

// stay takes down why slices of drivers that are gone are there still; nil: they
// are not.
func (m *Manager) stay(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.left = nil
	case m.left == nil:
		m.left = &loop.Gap{Loop: "dra", Key: loop.Key{Name: m.opts.Node}, State: loop.Failing, Since: time.Now()}
		fallthrough
	default:
		m.left.Reason = "remove the ResourceSlices of drivers that are gone: " + err.Error()
	}
}

// Gaps says what keeps slices of drivers that are gone.
func (m *Manager) Gaps() []loop.Gap {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		return nil
	}
	return []loop.Gap{*m.left}
}

// gone are the drivers that have been away for too long, and when the next
// will have.
func (m *Manager) gone() (names []string, next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, d := range m.drivers {
		if d.absent.IsZero() {
			continue
		}
		if at := d.absent.Add(absence); !time.Now().Before(at) {
			names = append(names, name)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return names, next
}

// forget takes out drivers whose slices are removed. One whose socket is still
// there is looked at again should it answer once more.
func (m *Manager) forget(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if d := m.drivers[name]; d == nil || d.absent.IsZero() {
			continue
		} else if len(d.instances) == 0 {
			delete(m.drivers, name)
		} else {
			d.absent = time.Now() // slices that it might leave in between
		}
	}
}

// present tells whether a driver is there, or not away for long.
func (m *Manager) present(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drivers[name]
	return d != nil && (d.absent.IsZero() || time.Since(d.absent) < absence)
}

// removeSlices removes the node's slices of drivers that are not there.
func (m *Manager) removeSlices(ctx context.Context) error {
	list, _, err := m.opts.Client.List(ctx, client.ResourceSlices, "", metav1.ListOptions{
		FieldSelector: resourcev1.ResourceSliceSelectorNodeName + "=" + m.opts.Node})
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range list {
		s, ok := o.(*resourcev1.ResourceSlice)
		if !ok || m.present(s.Spec.Driver) {
			continue
		}
		err := m.opts.Client.Delete(ctx, client.ResourceSlices, "", s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		m.opts.Logger.Info("removed the devices of a driver that is gone", "driver", s.Spec.Driver, "slice", s.Name)
	}
	return errors.Join(errs...)
}

// closeAll ends the connections, and those who follow them. No driver is taken
// from then on.
func (m *Manager) closeAll() {
	m.mu.Lock()
	m.ended = true
	for _, d := range m.drivers {
		for _, in := range d.instances {
			in.close()
		}
		d.instances = nil
	}
	m.mu.Unlock()
	m.followers.Wait()
}
