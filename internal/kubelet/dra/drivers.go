package dra

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	draapi "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
	"github.com/setpoint-project/setpoint/internal/kubelet/socket"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
)

// driver is a DRA driver. While it is being replaced there may be two of it.
type driver struct {
	instances []*instance // the newest last
	// absent is since when none of them answers; zero: one does.
	absent time.Time
}

type instance struct {
	plugin plugin.Plugin
	conn   *grpc.ClientConn
	ready  bool
	end    context.CancelFunc
}

// Register takes a driver.
func (m *Manager) Register(_ context.Context, p plugin.Plugin) error {
	if !slices.Contains(p.Versions, draapi.DRAPluginService) {
		return fmt.Errorf("DRA driver %s supports %q, this node needs %s", p.Name, p.Versions, draapi.DRAPluginService)
	}
	conn, err := socket.Dial(volume.HostPath(m.opts.Root, p.Endpoint))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	in := &instance{plugin: p, conn: conn, end: end}
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		in.close()
		return fmt.Errorf("DRA driver %s is not taken: the kubelet ends", p.Name)
	}
	d := m.drivers[p.Name]
	if d == nil {
		d = &driver{absent: time.Now()}
		m.drivers[p.Name] = d
	}
	old := d.take(p)
	d.instances = append(d.instances, in)
	m.followers.Go(func() { m.follow(ctx, d, in) })
	m.mu.Unlock()
	old.close()
	return nil
}

// Deregister lets a driver go.
func (m *Manager) Deregister(p plugin.Plugin) {
	m.mu.Lock()
	var old *instance
	if d := m.drivers[p.Name]; d != nil {
		old = d.take(p)
		d.settle()
	}
	m.mu.Unlock()
	old.close()
	m.look()
}

// take takes the instance of a socket out and returns it; nil: none.
func (d *driver) take(p plugin.Plugin) *instance {
	i := slices.IndexFunc(d.instances, func(in *instance) bool { return in.plugin.Socket == p.Socket })
	if i < 0 {
		return nil
	}
	in := d.instances[i]
	d.instances = slices.Delete(d.instances, i, i+1)
	return in
}

func (in *instance) close() {
	if in != nil {
		in.end()
		in.conn.Close()
	}
}

// settle notes since when the driver is absent.
func (d *driver) settle() {
	switch ready := slices.ContainsFunc(d.instances, func(in *instance) bool { return in.ready }); {
	case ready:
		d.absent = time.Time{}
	case d.absent.IsZero():
		d.absent = time.Now()
	}
}

// follow notes whether somebody serves at an instance's socket: a driver that
// was killed leaves it behind.
func (m *Manager) follow(ctx context.Context, d *driver, in *instance) {
	for {
		state := in.conn.GetState()
		if state == connectivity.Idle {
			in.conn.Connect()
		}
		m.mu.Lock()
		in.ready = state == connectivity.Ready
		d.settle()
		m.mu.Unlock()
		m.look()
		if !in.conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// connection is that of the newest of a driver's instances that answers, or
// else of the newest: it may have come this moment.
func (m *Manager) connection(name string) (*grpc.ClientConn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drivers[name]
	if d == nil || len(d.instances) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	in := d.instances[len(d.instances)-1]
	for _, other := range slices.Backward(d.instances) {
		if other.ready {
			in = other
			break
		}
	}
	return in.conn, nil
}

func (m *Manager) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
