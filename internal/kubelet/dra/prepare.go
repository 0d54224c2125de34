package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	draapi "k8s.io/kubelet/pkg/apis/dra/v1"
)

// patience bounds a driver's call, as upstream does.
const patience = 45 * time.Second

// lock takes a claim's turn. The record is in the Manager while it is held.
func (m *Manager) lock(ctx context.Context, c *claim) (*record, error) {
	for {
		m.mu.Lock()
		r := m.claims[c.UID]
		if r == nil {
			r = newRecord(c)
			m.claims[c.UID] = r
		}
		m.mu.Unlock()
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m.mu.Lock()
		current := m.claims[c.UID] == r
		m.mu.Unlock()
		if current {
			return r, nil
		}
		<-r.turn // it was given back meanwhile: from the beginning
	}
}

// unlock ends a turn; a claim that no pod uses any more is forgotten.
func (m *Manager) unlock(r *record) {
	if c := r.read(); len(c.Pods) == 0 {
		m.mu.Lock()
		delete(m.claims, c.UID)
		m.mu.Unlock()
	}
	<-r.turn
}

// prepare has the devices of a claim prepared for a pod.
func (m *Manager) prepare(ctx context.Context, pod types.UID, c *resourcev1.ResourceClaim) error {
	r, err := m.lock(ctx, &claim{UID: c.UID, Namespace: c.Namespace, Name: c.Name})
	if err != nil {
		return err
	}
	defer m.unlock(r)
	next := *r.read()
	if !slices.Contains(next.Pods, pod) {
		next.Pods = append(slices.Clone(next.Pods), pod)
	}
	if !next.Prepared {
		next.Drivers = slices.Clone(next.Drivers)
		for _, d := range c.Status.Allocation.Devices.Results {
			if !slices.Contains(next.Drivers, d.Driver) {
				next.Drivers = append(next.Drivers, d.Driver)
			}
		}
	}
	if err := m.save(r, &next); err != nil || next.Prepared {
		return err
	}
	var devices []device
	for _, name := range next.Drivers {
		got, err := m.ask(ctx, name, &next)
		if err != nil {
			return err
		}
		devices = append(devices, got...)
	}
	next.Prepared, next.Devices = true, devices
	done := next
	return m.save(r, &done)
}

// ask has one driver prepare its part of a claim.
func (m *Manager) ask(ctx context.Context, name string, c *claim) ([]device, error) {
	conn, err := m.connection(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := draapi.NewDRAPluginClient(conn).NodePrepareResources(ctx, &draapi.NodePrepareResourcesRequest{Claims: []*draapi.Claim{message(c)}})
	if err != nil {
		return nil, fmt.Errorf("NodePrepareResources of driver %s for claim %s: %w", name, c.Name, err)
	}
	part := resp.GetClaims()[string(c.UID)]
	switch {
	case part == nil:
		return nil, fmt.Errorf("NodePrepareResources of driver %s says nothing of claim %s", name, c.Name)
	case part.Error != "":
		return nil, fmt.Errorf("NodePrepareResources of driver %s failed for claim %s/%s: %s", name, c.Namespace, c.Name, part.Error)
	}
	var out []device
	for _, d := range part.Devices {
		out = append(out, device{Driver: name, Pool: d.PoolName, Name: d.DeviceName, Requests: d.RequestNames, CDI: d.CdiDeviceIds})
	}
	return out, nil
}

func message(c *claim) *draapi.Claim {
	return &draapi.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}
}

// unprepare takes a pod from a claim, and gives the claim's devices back when
// it was the last.
func (m *Manager) unprepare(ctx context.Context, pod types.UID, of *record) error {
	r, err := m.lock(ctx, of.read())
	if err != nil {
		return err
	}
	defer m.unlock(r)
	next := *r.read()
	if !slices.Contains(next.Pods, pod) {
		return nil
	}
	next.Pods = slices.DeleteFunc(slices.Clone(next.Pods), func(p types.UID) bool { return p == pod })
	if len(next.Pods) == 0 {
		// Half given back is not prepared: should a pod come meanwhile, it is
		// prepared anew.
		half := *r.read()
		half.Prepared, half.Devices = false, nil
		if err := m.save(r, &half); err != nil {
			return err
		}
		var errs []error
		for _, name := range next.Drivers {
			errs = append(errs, m.giveBack(ctx, name, &next))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return m.save(r, &next)
}

// giveBack has one driver undo what ask did.
func (m *Manager) giveBack(ctx context.Context, name string, c *claim) error {
	conn, err := m.connection(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := draapi.NewDRAPluginClient(conn).NodeUnprepareResources(ctx, &draapi.NodeUnprepareResourcesRequest{Claims: []*draapi.Claim{message(c)}})
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources of driver %s for claim %s: %w", name, c.Name, err)
	}
	switch part := resp.GetClaims()[string(c.UID)]; {
	case part == nil:
		return fmt.Errorf("NodeUnprepareResources of driver %s says nothing of claim %s", name, c.Name)
	case part.Error != "":
		return fmt.Errorf("NodeUnprepareResources of driver %s failed for claim %s/%s: %s", name, c.Namespace, c.Name, part.Error)
	}
	return nil
}
