// Package csi mounts the volumes of CSI drivers on a node.
//
//	plugin socket --> Register: NodeGetInfo --> CSINode, labels of the Node
//
//	Mount:    say "in use" on the Node --> wait until it is attached
//	            --> NodeStageVolume, once a node --> NodePublishVolume, once a pod
//	TearDown: NodeUnpublishVolume --> (last pod) NodeUnstageVolume --> not in use
//
// What a driver is asked for is written down before it is asked, and that it was
// done afterwards:
//
//	<root>/pods/<uid>/volumes/kubernetes.io~csi/<volume>/vol_data.json  asked to publish
//	<root>/pods/<uid>/volumes/kubernetes.io~csi/<volume>/mount          where
//	<root>/plugins/kubernetes.io/csi/<driver>/<hash>/vol_data.json      asked to stage
//	<root>/plugins/kubernetes.io/csi/<driver>/<hash>/globalmount        where
//
// So a kubelet that is killed between any two calls knows what may be mounted,
// and asks again: every call of the interface may be made twice. What was done
// before the machine was started again is done anew.
//
// Use: New, then Run; its methods are those of volume.Drivers and plugin.Handler.
//
// Concurrency: a Manager may be used from many goroutines. A driver is asked one
// thing of a volume at a time, of different volumes at once.
//
// Failure: errors are the driver's or the API server's. What a driver does not
// take back is tried again by a loop, whose gaps say why.
//
// See https://github.com/container-storage-interface/spec/blob/v1.13.0/spec.md,
// https://kubernetes-csi.github.io/docs/ and
// https://kubernetes.io/docs/concepts/storage/volumes/#csi.
package csi

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/object"
	"github.com/setpoint-project/setpoint/internal/kubelet/socket"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// Events is where a Manager tells what happens to a pod's volumes.
type Events interface {
	Pod(pod *v1.Pod, container, kind, reason, format string, args ...any)
}

// Options of a Manager.
type Options struct {
	Root   string // the kubelet's folder, as the kernel calls it
	Node   string
	Client client.Interface // with the node's identity
	// Secret reads a secret that a volume names.
	Secret func(ctx context.Context, namespace, name string) (*v1.Secret, error)
	// Token is a token of the pod's service account.
	Token  func(ctx context.Context, pod *v1.Pod, audience string, seconds int64) (token string, expires time.Time, err error)
	Events Events
	// Changed is told the pod whose volume changed; it must be quick.
	Changed func(pod types.UID)
	Logger  *slog.Logger // nil: no log
	// Boot tells one start of the machine from another; empty: the kernel's.
	Boot string
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(key loop.Key, o loop.Outcome, err error, took time.Duration)
}

// Manager mounts volumes of CSI drivers.
type Manager struct {
	opts  Options
	loop  *loop.Loop
	nodes client.View // this node
	// objects are the persistent volumes in use.
	objects *object.Cache
	life    context.Context // of objects
	end     context.CancelFunc

	report sync.Mutex // held while the Node is written

	mu       sync.Mutex
	drivers  map[string]driver      // guarded by mu; those that are registered
	gone     map[string]bool        // guarded by mu; those that were, and are to go from CSINode
	volumes  map[id]*known          // guarded by mu
	changed  chan struct{}          // guarded by mu; closed when the Node changes
	holds    map[types.UID][]string // guarded by mu; names of the persistent volumes that are followed for a pod
	measured map[place]*measured    // guarded by mu
}

// id is a volume, as its driver knows it.
type id struct{ driver, handle string }

func (v id) key() loop.Key { return loop.Key{Namespace: v.driver, Name: v.handle} }

// driver is one that is registered.
type driver struct {
	endpoint string // as it was told
	// usual: the driver knows the kubelet's folder by its usual name.
	usual bool
	info  *pb.NodeGetInfoResponse
}

// New makes a Manager and reads what was written down before.
func New(o Options) (*Manager, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Boot == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, err
		}
		o.Boot = strings.TrimSpace(string(b))
	}
	m := &Manager{
		opts: o, drivers: map[string]driver{}, gone: map[string]bool{}, volumes: map[id]*known{}, changed: make(chan struct{}), holds: map[types.UID][]string{},
		nodes: o.Client.View(client.Nodes, client.ViewOptions{FieldSelector: "metadata.name=" + o.Node}),
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.objects = object.New(o.Client, o.Changed)
	m.loop = loop.New(loop.Options{Name: "csi", Reconcile: m.reconcile, MaxBackoff: 30 * time.Second, Logger: o.Logger, Observer: o.Observer})
	return m, m.remember()
}

// Run takes back what no pod uses any more, and keeps the Node true, until ctx
// ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.end()
	defer m.nodes.Handle(func(old, new client.Object) {
		m.mu.Lock()
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
		if old == nil {
			m.loop.Look(ofNode)
		}
	})()
	m.mu.Lock()
	for v := range m.volumes {
		m.loop.Look(v.key())
	}
	m.mu.Unlock()
	if err := m.nodes.WaitSynced(ctx); err != nil {
		m.loop.Stop()
		return err
	}
	return m.loop.Run(ctx)
}

// Name of the loop.
func (m *Manager) Name() string { return m.loop.Name() }

// Gaps lists volumes that are not taken back, and drivers that are not told of.
func (m *Manager) Gaps() []loop.Gap { return m.loop.Gaps() }

// answer is how long a driver may take: upstream's.
const answer = 2 * time.Minute

// ask calls a driver that is registered.
func (m *Manager) ask(ctx context.Context, name string, f func(context.Context, pb.NodeClient) error) error {
	m.mu.Lock()
	d, ok := m.drivers[name]
	m.mu.Unlock()
	if !ok {
		return fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
	}
	return m.call(ctx, d, f)
}

func (m *Manager) call(ctx context.Context, d driver, f func(context.Context, pb.NodeClient) error) error {
	conn, err := socket.Dial(volume.HostPath(m.opts.Root, d.endpoint))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return f(ctx, pb.NewNodeClient(conn))
}

// seen is a path below the kubelet's folder as a driver knows it.
func (m *Manager) seen(name, path string) string {
	m.mu.Lock()
	usual := m.drivers[name].usual
	m.mu.Unlock()
	if rest, ok := strings.CutPrefix(path, m.opts.Root+"/"); ok && usual {
		return filepath.Join(volume.UsualRoot, rest)
	}
	return path
}

// capabilities of a driver's node service.
type capabilities map[pb.NodeServiceCapability_RPC_Type]bool

func (m *Manager) capabilities(ctx context.Context, name string) (capabilities, error) {
	caps := capabilities{}
	err := m.ask(ctx, name, func(ctx context.Context, c pb.NodeClient) error {
		resp, err := c.NodeGetCapabilities(ctx, &pb.NodeGetCapabilitiesRequest{})
		for _, one := range resp.GetCapabilities() {
			caps[one.GetRpc().GetType()] = true
		}
		return err
	})
	return caps, err
}

// described is what a driver's CSIDriver says; nil: there is none.
func (m *Manager) described(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	d, err := client.Get[*storagev1.CSIDriver](ctx, m.opts.Client, client.CSIDrivers, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return d, err
}
