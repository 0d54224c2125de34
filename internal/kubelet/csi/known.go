package csi

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// known is what a Manager knows of a volume on this node. The fields are guarded
// by Manager.mu.
type known struct {
	// turn is taken by whoever asks the driver something of the volume.
	turn chan struct{}
	refs int // who has taken it, or waits for it
	// users are the pods that have it published, or are about to.
	users map[types.UID]bool
	// staged: the driver has been asked to stage it.
	staged bool
	attach bool // it is one that is attached to nodes
}

// know is what is known of a volume, from now on at the latest. The caller holds
// m.mu, or is alone.
func (m *Manager) know(v id, attach bool) *known {
	k := m.volumes[v]
	if k == nil {
		k = &known{turn: make(chan struct{}, 1), users: map[types.UID]bool{}}
		m.volumes[v] = k
	}
	k.attach = k.attach || attach
	return k
}

// forgetIdle forgets a volume that nobody has to do with. The caller holds m.mu.
func (m *Manager) forgetIdle(v id) {
	if k := m.volumes[v]; k != nil && k.refs == 0 && len(k.users) == 0 && !k.staged {
		delete(m.volumes, v)
	}
}

// use makes a pod a user of a volume.
func (m *Manager) use(v id, attach bool, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.know(v, attach).users[uid] = true
}

// take takes the turn of a volume; give gives it back.
func (m *Manager) take(ctx context.Context, v id) (give func(), err error) {
	m.mu.Lock()
	k := m.know(v, false)
	k.refs++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		k.refs--
		m.forgetIdle(v)
	}
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

func (m *Manager) setStaged(v id, staged bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.know(v, false).staged = staged
	m.forgetIdle(v)
}

// Uses tells whether a pod has a volume, or is about to.
func (m *Manager) Uses(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.volumes {
		if k.users[uid] {
			return true
		}
	}
	return false
}

// leaveAll makes a pod a user of nothing any more, and looks at what it used.
func (m *Manager) leaveAll(uid types.UID) {
	m.mu.Lock()
	var left []id
	for v, k := range m.volumes {
		if k.users[uid] {
			delete(k.users, uid)
			left = append(left, v)
		}
	}
	delete(m.holds, uid)
	m.mu.Unlock()
	m.objects.Hold(m.life, uid, nil)
	for _, v := range left {
		m.loop.Look(v.key())
	}
}

// state of a volume: whether a pod uses it, whether it is staged.
func (m *Manager) state(v id) (used, staged bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.volumes[v]
	return k != nil && len(k.users) > 0, k != nil && k.staged
}
