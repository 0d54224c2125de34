// Package dra speaks with the node's DRA drivers: it has the devices that pods
// claim prepared before their containers start, and given back when they have
// ended.
//
//	claim allocated, reserved for the pod
//	  |
//	write down whom to ask --> NodePrepareResources --> write down the answer
//	                                                      |
//	                              CDI names of devices, for the containers
//	last pod ends --> NodeUnprepareResources --> forget
//
// What was asked for is on disk before it is asked (state.go), so that a
// kubelet that is killed at any point gives back what the next one finds. The
// drivers' calls are idempotent by contract, so it asks again what it does not
// know the answer of.
//
// A driver that is gone for a while takes its ResourceSlices with it, so that
// the scheduler chooses no device that nobody prepares (slices.go).
//
// Use: New, hand it to a plugin.Watcher as the Handler of type DRA, Run.
//
// Concurrency: a Manager may be used from many goroutines; the pods that share
// a claim wait for each other, others do not.
//
// Failure: errors say which claim and driver; the caller tries again.
//
// https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Options of a Manager.
type Options struct {
	Node   string // its name
	Client client.Interface
	Root   string       // the kubelet's folder; that of the state is made in it
	Logger *slog.Logger // nil: no log
}

// Manager has devices prepared.
type Manager struct {
	opts Options
	wake chan struct{} // one slot: drivers came or went

	followers sync.WaitGroup // added to under mu, before ended is set
	mu        sync.Mutex
	ended     bool                  // guarded by mu
	drivers   map[string]*driver    // guarded by mu; by name
	claims    map[types.UID]*record // guarded by mu, and each record by its own lock
	left      *loop.Gap             // guarded by mu; see stay
}

// New makes a Manager that knows what the one before it wrote down.
func New(o Options) (*Manager, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{opts: o, wake: make(chan struct{}, 1), drivers: map[string]*driver{}, claims: map[types.UID]*record{}}
	return m, m.load()
}

// Prepare has all devices that a pod claims prepared. What is prepared already
// costs nothing, so it is asked before each container.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) error {
	var errs []error
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		name, owned, err := resourceclaim.Name(pod, c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if name == nil || m.has(pod.UID, *name) {
			continue // no claim had to be made, or it is prepared
		}
		if err := m.prepareNamed(ctx, pod, *name, owned); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// has tells whether a claim is prepared for a pod.
func (m *Manager) has(pod types.UID, name string) bool {
	r := m.find(pod, name)
	return r != nil && r.read().Prepared
}

// find is the record of a claim that a pod uses, by its name; nil: none.
func (m *Manager) find(pod types.UID, name string) *record {
	for _, r := range m.of(pod) {
		if r.read().Name == name {
			return r
		}
	}
	return nil
}

// of are the records of the claims that a pod uses.
func (m *Manager) of(pod types.UID) []*record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*record
	for _, r := range m.claims {
		if slices.Contains(r.read().Pods, pod) {
			out = append(out, r)
		}
	}
	return out
}

func (m *Manager) prepareNamed(ctx context.Context, pod *v1.Pod, name string, owned bool) error {
	c, err := client.Get[*resourcev1.ResourceClaim](ctx, m.opts.Client, client.ResourceClaims, pod.Namespace, name)
	if err != nil {
		return fmt.Errorf("failed to fetch ResourceClaim %s referenced by pod %s: %w", name, pod.Name, err)
	}
	if err := usable(pod, c, owned); err != nil {
		return err
	}
	return m.prepare(ctx, pod.UID, c)
}

// usable tells whether a pod may use the devices of a claim.
func usable(pod *v1.Pod, c *resourcev1.ResourceClaim, owned bool) error {
	if owned {
		if err := resourceclaim.IsForPod(pod, c, false); err != nil {
			return err
		}
	}
	switch {
	case !resourceclaim.IsReservedForPod(pod, c, false):
		return fmt.Errorf("pod %s(%s) is not allowed to use resource claim %s(%s)", pod.Name, pod.UID, c.Name, c.UID)
	case c.Status.Allocation == nil:
		return fmt.Errorf("resource claim %s is not allocated", c.Name)
	case c.DeletionTimestamp != nil && len(c.Finalizers) == 0:
		return fmt.Errorf("resource claim %s is being deleted", c.Name)
	}
	return nil
}

// Devices are the CDI names of the devices that a container claims.
func (m *Manager) Devices(pod *v1.Pod, c *v1.Container) ([]string, error) {
	var out []string
	for _, use := range c.Resources.Claims {
		i := slices.IndexFunc(pod.Spec.ResourceClaims, func(p v1.PodResourceClaim) bool { return p.Name == use.Name })
		if i < 0 {
			return nil, fmt.Errorf("container %s uses claim %q, which the pod does not have", c.Name, use.Name)
		}
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		r := m.find(pod.UID, *name)
		if r == nil {
			return nil, fmt.Errorf("resource claim %s is not prepared", *name)
		}
		for _, d := range r.read().Devices {
			if !d.requested(use.Request) {
				continue
			}
			for _, id := range d.CDI {
				if !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
		}
	}
	return out, nil
}

// Holds tells whether a pod has devices prepared, or half prepared.
func (m *Manager) Holds(pod types.UID) bool { return len(m.of(pod)) > 0 }

// Pods are those that hold devices.
func (m *Manager) Pods() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []types.UID
	for _, r := range m.claims {
		out = append(out, r.read().Pods...)
	}
	return out
}

// Unprepare gives back what a pod that has ended used, where no other pod of
// the node does.
func (m *Manager) Unprepare(ctx context.Context, pod types.UID) error {
	var errs []error
	for _, r := range m.of(pod) {
		if err := m.unprepare(ctx, pod, r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
