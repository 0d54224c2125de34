package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nodeService is the node service.
type nodeService struct {
	pb.UnimplementedNodeServer
	*driver
}

func (n *nodeService) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	return &pb.NodeGetInfoResponse{NodeId: n.node, MaxVolumesPerNode: 20,
		AccessibleTopology: &pb.Topology{Segments: map[string]string{n.zone(): "one", n.host(): n.node}}}, nil
}

func (n *nodeService) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	r := &pb.NodeGetCapabilitiesResponse{}
	for _, one := range []pb.NodeServiceCapability_RPC_Type{
		pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, pb.NodeServiceCapability_RPC_EXPAND_VOLUME, pb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		r.Capabilities = append(r.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{Rpc: &pb.NodeServiceCapability_RPC{Type: one}}})
	}
	return r, nil
}

func (n *nodeService) NodeStageVolume(_ context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	d, err := n.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	switch {
	case !d.Attached[n.node]:
		return nil, n.disks.blame("disk %s is to be staged, and is attached to %v", d.ID, d.Attached)
	case r.PublishContext["to"] != n.node:
		return nil, n.disks.blame("disk %s is to be staged as attached by %v", d.ID, r.PublishContext)
	}
	if d.Staged == nil {
		d.Staged = map[string]bool{}
	}
	if d.Staged[n.node] {
		return &pb.NodeStageVolumeResponse{}, nil
	}
	d.Staged[n.node] = true
	if err := n.disks.put("disks", d); err != nil {
		return nil, err
	}
	if err := n.disks.called("stage", d.ID); err != nil {
		return nil, err
	}
	if d.Block {
		_, err := attachLoop(n.disks.image(d.ID), d.ID)
		return &pb.NodeStageVolumeResponse{}, err
	}
	return &pb.NodeStageVolumeResponse{}, bind(n.disks.data(d.ID), r.StagingTargetPath)
}

func (n *nodeService) NodeUnstageVolume(_ context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	d, err := n.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	if err := unbind(r.StagingTargetPath); err != nil {
		return nil, err
	}
	if d.Block {
		if err := detachLoop(d.ID); err != nil {
			return nil, err
		}
	}
	delete(d.Staged, n.node)
	if err := n.disks.put("disks", d); err != nil {
		return nil, err
	}
	return &pb.NodeUnstageVolumeResponse{}, n.disks.called("unstage", d.ID)
}

func (n *nodeService) NodePublishVolume(_ context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	from := r.StagingTargetPath
	if r.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true" {
		from = n.disks.data(r.VolumeId)
		if err := os.MkdirAll(from, 0o777); err != nil {
			return nil, err
		}
		text := r.VolumeContext["csi.storage.k8s.io/pod.name"] + " " + r.VolumeContext["text"] + "\n"
		if err := os.WriteFile(filepath.Join(from, "of"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	} else if d, err := n.disks.get("disks", r.VolumeId); err != nil {
		return nil, err
	} else if !d.Staged[n.node] {
		return nil, n.disks.blame("disk %s is to be published before it is staged", d.ID)
	}
	if err := n.disks.called("publish", r.VolumeId); err != nil {
		return nil, err
	}
	if r.VolumeCapability.GetBlock() == nil {
		if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
			return nil, err
		}
		return &pb.NodePublishVolumeResponse{}, bind(from, r.TargetPath)
	}
	device, err := findLoop(r.VolumeId)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.TargetPath, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	return &pb.NodePublishVolumeResponse{}, bind(device, r.TargetPath)
}

func (n *nodeService) NodeUnpublishVolume(_ context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	if err := unbind(r.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if d, err := n.disks.find("disks", r.VolumeId); err != nil {
		return nil, err
	} else if d == nil { // an ephemeral one
		if err := n.disks.remove("disks", r.VolumeId); err != nil {
			return nil, err
		}
	}
	return &pb.NodeUnpublishVolumeResponse{}, n.disks.called("unpublish", r.VolumeId)
}

func (n *nodeService) NodeExpandVolume(_ context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	d, err := n.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	if !d.Staged[n.node] {
		return nil, n.disks.blame("disk %s is to grow where it is not staged", d.ID)
	}
	if d.Block {
		if err := growLoop(d.ID); err != nil {
			return nil, err
		}
	}
	return &pb.NodeExpandVolumeResponse{CapacityBytes: d.Size}, n.disks.called("expand", d.ID)
}

// NodeGetVolumeStats tells of 1,000 bytes that are used, whatever lies there: the
// tests can tell its word from what the kubelet would find out by itself.
func (n *nodeService) NodeGetVolumeStats(_ context.Context, r *pb.NodeGetVolumeStatsRequest) (*pb.NodeGetVolumeStatsResponse, error) {
	if _, err := os.Lstat(r.VolumePath); err != nil {
		return nil, status.Errorf(codes.NotFound, "%s: %v", r.VolumePath, err)
	}
	d, err := n.disks.find("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	if d == nil {
		d = &disk{Size: 1 << 20}
	}
	return &pb.NodeGetVolumeStatsResponse{Usage: []*pb.VolumeUsage{
		{Unit: pb.VolumeUsage_BYTES, Total: d.Size, Used: 1000, Available: d.Size - 1000},
		{Unit: pb.VolumeUsage_INODES, Total: 100, Used: 1, Available: 99},
	}}, nil
}

// bind shows a path at another, once.
func bind(from, at string) error {
	if mounted(at) {
		return nil
	}
	return unix.Mount(from, at, "", unix.MS_BIND, "")
}

func unbind(path string) error {
	for mounted(path) {
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return status.Errorf(codes.Internal, "unmount %s: %v", path, err)
		}
	}
	return nil
}

func mounted(path string) bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true
		}
	}
	return false
}

// attachLoop gives a disk a loop device, which bears its id, and returns it.
func attachLoop(image, id string) (string, error) {
	if device, err := findLoop(id); err == nil {
		return device, nil
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	i, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", err
	}
	path := "/dev/loop" + strconv.Itoa(i)
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(i)))); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer device.Close()
	config := &unix.LoopConfig{Fd: uint32(file.Fd())}
	copy(config.Info.File_name[:], id)
	return path, unix.IoctlLoopConfigure(int(device.Fd()), config)
}

// findLoop is the loop device of a disk.
func findLoop(id string) (string, error) {
	devices, err := filepath.Glob("/dev/loop[0-9]*")
	if err != nil {
		return "", err
	}
	for _, path := range devices {
		device, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		device.Close()
		if err == nil && unix.ByteSliceToString(info.File_name[:]) == id {
			return path, nil
		}
	}
	return "", status.Errorf(codes.NotFound, "disk %s has no loop device", id)
}

func detachLoop(id string) error { return loop(id, unix.LOOP_CLR_FD) }

func growLoop(id string) error { return loop(id, unix.LOOP_SET_CAPACITY) }

// loop asks something of a disk's loop device; one that it does not have is no
// error.
func loop(id string, request uint) error {
	path, err := findLoop(id)
	if err != nil {
		return nil
	}
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	return unix.IoctlSetInt(int(device.Fd()), request, 0)
}
