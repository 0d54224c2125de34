// Package csitest is a CSI driver for tests: its node service, over a real
// socket, with folders for volumes.
//
// It holds its callers to the interface: what is asked for out of order is an
// error of theirs that Wrong lists. Where Mounts is set it mounts its folders,
// which needs root; else it only makes them.
package csitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Capability is one of a node service.
type Capability = pb.NodeServiceCapability_RPC_Type

// The capabilities that a driver may have.
const (
	Stage      = pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	Expand     = pb.NodeServiceCapability_RPC_EXPAND_VOLUME
	MountGroup = pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	Statistics = pb.NodeServiceCapability_RPC_GET_VOLUME_STATS
	OneOfMany  = pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
)

// Driver is the node service of a driver. Its fields are set before Serve.
type Driver struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedNodeServer

	Name, NodeID string
	Topology     map[string]string
	Most         int64 // volumes that the node takes
	Capabilities []Capability
	Folder       string // of the volumes' data, a folder each
	Mounts       bool
	// Local is where a path that the driver is given lies; nil: there.
	Local func(path string) string
	// Before, when not nil, is called with each call, such as "stage", before
	// anything is done, After when it has been, before the answer: what they
	// return is answered.
	Before, After func(ctx context.Context, call, volume string) error

	mu        sync.Mutex
	staged    map[string]string            // volume to path; guarded by mu
	published map[string]map[string]string // volume to targets and where they were staged; guarded by mu
	calls     []string                     // guarded by mu
	wrong     []string                     // guarded by mu
	last      map[string]any               // the last request of each call; guarded by mu
}

// Serve serves at a socket until the test ends or stop is called.
func (d *Driver) Serve(t testing.TB, socket string) (stop func()) {
	t.Helper()
	return must(t)(d.Listen(socket))
}

func must(t testing.TB) func(stop func(), err error) func() {
	return func(stop func(), err error) func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return stop
	}
}

// Listen serves at a socket until stop is called.
func (d *Driver) Listen(socket string) (stop func(), err error) {
	return listen(socket, func(s *grpc.Server) {
		pb.RegisterIdentityServer(s, d)
		pb.RegisterNodeServer(s, d)
	})
}

func listen(socket string, register func(*grpc.Server)) (stop func(), err error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	return func() { s.Stop(); l.Close(); <-done }, nil
}

// Register serves what node-driver-registrar does: it tells a kubelet, at a
// socket in its folder of plugins, at which path the driver serves. told gets
// each answer of the kubelet.
func (d *Driver) Register(t testing.TB, socket, endpoint string) (stop func(), told <-chan *registerapi.RegistrationStatus) {
	t.Helper()
	stop, told, err := d.Announce(socket, endpoint)
	return must(t)(stop, err), told
}

// Announce is Register outside of a test.
func (d *Driver) Announce(socket, endpoint string) (stop func(), told <-chan *registerapi.RegistrationStatus, err error) {
	r := &registrar{info: &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: d.Name, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"}},
		told: make(chan *registerapi.RegistrationStatus, 16)}
	stop, err = listen(socket, func(s *grpc.Server) { registerapi.RegisterRegistrationServer(s, r) })
	return stop, r.told, err
}

type registrar struct {
	registerapi.UnimplementedRegistrationServer
	info *registerapi.PluginInfo
	told chan *registerapi.RegistrationStatus
}

func (r *registrar) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return r.info, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, st *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	select {
	case r.told <- st:
	default: // nobody in this test asks
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// Calls are those so far that change something, such as "stage v1".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Wrong is what was asked out of order.
func (d *Driver) Wrong() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.wrong)
}

// Left is what is staged or published, in a fixed order.
func (d *Driver) Left() (left []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for v, path := range d.staged {
		left = append(left, "staged "+v+" at "+path)
	}
	for v, targets := range d.published {
		for t := range targets {
			left = append(left, "published "+v+" at "+t)
		}
	}
	slices.Sort(left)
	return left
}

// Reboot forgets what a machine forgets that is started again.
func (d *Driver) Reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.staged, d.published = nil, nil
}

// SetMost changes how many volumes the node takes, after Serve.
func (d *Driver) SetMost(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Most = n
}

// Last is the last request of a call: Last[*pb.NodeStageVolumeRequest](d, "stage").
func Last[T any](d *Driver, call string) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, _ := d.last[call].(T)
	return t
}

// do takes down a call and does it, between Before and After.
func (d *Driver) do(ctx context.Context, call, volume string, req any, f func() error) error {
	if d.Before != nil {
		if err := d.Before(ctx, call, volume); err != nil {
			return err
		}
	}
	d.mu.Lock()
	d.calls = append(d.calls, call+" "+volume)
	if d.last == nil {
		d.last, d.staged, d.published = map[string]any{}, map[string]string{}, map[string]map[string]string{}
	}
	if d.staged == nil {
		d.staged, d.published = map[string]string{}, map[string]map[string]string{}
	}
	d.last[call] = req
	err := f()
	d.mu.Unlock()
	if err == nil && d.After != nil {
		err = d.After(ctx, call, volume)
	}
	return err
}

// blame takes down what a caller did wrong.
func (d *Driver) blame(format string, args ...any) error {
	d.wrong = append(d.wrong, fmt.Sprintf(format, args...))
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

func (d *Driver) local(path string) string {
	if d.Local != nil {
		return d.Local(path)
	}
	return path
}

func (d *Driver) has(c Capability) bool { return slices.Contains(d.Capabilities, c) }

// NodeGetInfo implements the interface.
func (d *Driver) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &pb.NodeGetInfoResponse{NodeId: d.NodeID, MaxVolumesPerNode: d.Most}
	if d.Topology != nil {
		r.AccessibleTopology = &pb.Topology{Segments: maps.Clone(d.Topology)}
	}
	return r, nil
}

// NodeGetCapabilities implements the interface.
func (d *Driver) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	r := &pb.NodeGetCapabilitiesResponse{}
	for _, c := range d.Capabilities {
		r.Capabilities = append(r.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{Rpc: &pb.NodeServiceCapability_RPC{Type: c}}})
	}
	return r, nil
}

// NodeStageVolume implements the interface.
func (d *Driver) NodeStageVolume(ctx context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	return &pb.NodeStageVolumeResponse{}, d.do(ctx, "stage", r.VolumeId, r, func() error {
		info, err := os.Stat(d.local(r.StagingTargetPath))
		if err != nil || !info.IsDir() {
			return d.blame("volume %s is to be staged at %s, which is no folder", r.VolumeId, r.StagingTargetPath)
		}
		if at, ok := d.staged[r.VolumeId]; ok {
			if at != r.StagingTargetPath {
				return d.blame("volume %s is to be staged at %s, and is at %s", r.VolumeId, r.StagingTargetPath, at)
			}
			return nil
		}
		if r.VolumeCapability.GetBlock() == nil {
			if err := d.mount(r.VolumeId, d.local(r.StagingTargetPath)); err != nil {
				return err
			}
		}
		d.staged[r.VolumeId] = r.StagingTargetPath
		return nil
	})
}

// NodeUnstageVolume implements the interface.
func (d *Driver) NodeUnstageVolume(ctx context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	return &pb.NodeUnstageVolumeResponse{}, d.do(ctx, "unstage", r.VolumeId, r, func() error {
		if len(d.published[r.VolumeId]) > 0 {
			return d.blame("volume %s is to be unstaged while it is published", r.VolumeId)
		}
		delete(d.staged, r.VolumeId)
		return d.unmount(d.local(r.StagingTargetPath)) // also when it was staged before the driver was started
	})
}

// NodePublishVolume implements the interface.
func (d *Driver) NodePublishVolume(ctx context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	return &pb.NodePublishVolumeResponse{}, d.do(ctx, "publish", r.VolumeId, r, func() error {
		target := d.local(r.TargetPath)
		if _, err := os.Stat(filepath.Dir(target)); err != nil {
			return d.blame("volume %s is to be published at %s, whose folder is missing", r.VolumeId, r.TargetPath)
		}
		if d.has(Stage) && r.StagingTargetPath != "" && d.staged[r.VolumeId] != r.StagingTargetPath {
			return d.blame("volume %s is to be published from %s, and is staged at %q", r.VolumeId, r.StagingTargetPath, d.staged[r.VolumeId])
		}
		if _, ok := d.published[r.VolumeId][r.TargetPath]; ok {
			return nil
		}
		var err error
		if r.VolumeCapability.GetBlock() != nil {
			err = d.device(target)
		} else if err = os.MkdirAll(target, 0o755); err == nil {
			err = d.mount(r.VolumeId, target)
		}
		if err == nil && d.published[r.VolumeId] == nil {
			d.published[r.VolumeId] = map[string]string{}
		}
		if err == nil {
			d.published[r.VolumeId][r.TargetPath] = r.StagingTargetPath
		}
		return err
	})
}

// NodeUnpublishVolume implements the interface.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	return &pb.NodeUnpublishVolumeResponse{}, d.do(ctx, "unpublish", r.VolumeId, r, func() error {
		delete(d.published[r.VolumeId], r.TargetPath)
		target := d.local(r.TargetPath)
		if err := d.unmount(target); err != nil {
			return err
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
}

// NodeExpandVolume implements the interface.
func (d *Driver) NodeExpandVolume(ctx context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	return &pb.NodeExpandVolumeResponse{CapacityBytes: r.CapacityRange.GetRequiredBytes()}, d.do(ctx, "expand", r.VolumeId, r, func() error {
		if _, ok := d.published[r.VolumeId][r.VolumePath]; !ok {
			return d.blame("volume %s is to be expanded at %s, where it is not", r.VolumeId, r.VolumePath)
		}
		return nil
	})
}

// NodeGetVolumeStats implements the interface: of 100 bytes 30 are used. It is
// no call that changes something.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, r *pb.NodeGetVolumeStatsRequest) (*pb.NodeGetVolumeStatsResponse, error) {
	if d.Before != nil {
		if err := d.Before(ctx, "stats", r.VolumeId); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.published[r.VolumeId][r.VolumePath]; !ok {
		return nil, d.blame("volume %s is to be measured at %s, where it is not", r.VolumeId, r.VolumePath)
	}
	return &pb.NodeGetVolumeStatsResponse{Usage: []*pb.VolumeUsage{{Unit: pb.VolumeUsage_BYTES, Total: 100, Used: 30, Available: 70}, {Unit: pb.VolumeUsage_INODES, Total: 10, Used: 3, Available: 7}}}, nil
}

// mount mounts a volume's folder.
func (d *Driver) mount(volume, path string) error {
	from := filepath.Join(d.Folder, volume)
	if err := os.MkdirAll(from, 0o755); err != nil || !d.Mounts {
		return err
	}
	if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
		return status.Errorf(codes.Internal, "mount %s at %s: %v", from, path, err)
	}
	return nil
}

// device publishes what every machine has as a device.
func (d *Driver) device(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil || !d.Mounts {
		return err
	}
	return unix.Mount("/dev/zero", path, "", unix.MS_BIND, "")
}

func (d *Driver) unmount(path string) error {
	if !d.Mounts {
		return nil
	}
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return status.Errorf(codes.Internal, "unmount %s: %v", path, err)
	}
	return nil
}
