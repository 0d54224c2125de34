package main

import (
	"context"
	"maps"
	"os"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// controller is the controller service.
type controller struct {
	pb.UnimplementedControllerServer
	*driver
}

func (c *controller) ControllerGetCapabilities(context.Context, *pb.ControllerGetCapabilitiesRequest) (*pb.ControllerGetCapabilitiesResponse, error) {
	r := &pb.ControllerGetCapabilitiesResponse{}
	for _, one := range []pb.ControllerServiceCapability_RPC_Type{
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		pb.ControllerServiceCapability_RPC_EXPAND_VOLUME, pb.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, pb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		pb.ControllerServiceCapability_RPC_GET_CAPACITY, pb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		r.Capabilities = append(r.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{Rpc: &pb.ControllerServiceCapability_RPC{Type: one}}})
	}
	return r, nil
}

func (c *controller) CreateVolume(_ context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	d, err := c.disks.find("disks", r.Name)
	if err != nil {
		return nil, err
	}
	if d == nil {
		d = &disk{ID: r.Name, Size: r.CapacityRange.GetRequiredBytes(), Block: r.VolumeCapabilities[0].GetBlock() != nil, Parameters: r.MutableParameters,
			Attached: map[string]bool{}, Staged: map[string]bool{}}
		if err := c.fill(d, r.VolumeContentSource); err != nil {
			return nil, err
		}
		if err := c.disks.put("disks", d); err != nil {
			return nil, err
		}
		if err := c.disks.called("create", d.ID); err != nil {
			return nil, err
		}
	}
	return &pb.CreateVolumeResponse{Volume: &pb.Volume{VolumeId: d.ID, CapacityBytes: d.Size, ContentSource: r.VolumeContentSource, VolumeContext: r.Parameters,
		AccessibleTopology: []*pb.Topology{{Segments: map[string]string{c.zone(): "one"}}}}}, nil
}

// fill makes a disk's data, a copy of what it is to be made of.
func (c *controller) fill(d *disk, source *pb.VolumeContentSource) error {
	if err := os.RemoveAll(c.disks.data(d.ID)); err != nil { // of a try before
		return err
	}
	from, kind := source.GetSnapshot().GetSnapshotId(), "snapshots"
	if from == "" {
		from, kind = source.GetVolume().GetVolumeId(), "disks"
	}
	if from != "" {
		if _, err := c.disks.get(kind, from); err != nil {
			return err
		}
		if err := os.CopyFS(c.disks.data(d.ID), os.DirFS(c.disks.data(from))); err != nil {
			return err
		}
	} else if err := os.Mkdir(c.disks.data(d.ID), 0o777); err != nil {
		return err
	}
	if !d.Block {
		return nil
	}
	f, err := os.OpenFile(c.disks.image(d.ID), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(d.Size)
}

func (c *controller) DeleteVolume(_ context.Context, r *pb.DeleteVolumeRequest) (*pb.DeleteVolumeResponse, error) {
	d, err := c.disks.find("disks", r.VolumeId)
	if err != nil || d == nil {
		return &pb.DeleteVolumeResponse{}, err
	}
	if len(d.Attached)+len(d.Staged) > 0 {
		return nil, c.disks.blame("disk %s is to be deleted while it is attached to %v and staged at %v", d.ID, d.Attached, d.Staged)
	}
	if err := c.disks.remove("disks", d.ID); err != nil {
		return nil, err
	}
	return &pb.DeleteVolumeResponse{}, c.disks.called("delete", d.ID)
}

func (c *controller) ControllerPublishVolume(_ context.Context, r *pb.ControllerPublishVolumeRequest) (*pb.ControllerPublishVolumeResponse, error) {
	d, err := c.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	node := r.NodeId
	if m := r.VolumeCapability.GetAccessMode().GetMode(); len(d.Attached) > 0 && !d.Attached[node] && m != pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER {
		return nil, c.disks.blame("disk %s is to be attached to %s for %s, and is to %v", d.ID, node, m, d.Attached)
	}
	if d.Attached == nil {
		d.Attached = map[string]bool{}
	}
	if !d.Attached[node] {
		if err := c.disks.called("attach", d.ID+" to "+node); err != nil {
			return nil, err
		}
	}
	d.Attached[node] = true
	return &pb.ControllerPublishVolumeResponse{PublishContext: map[string]string{"to": node}}, c.disks.put("disks", d)
}

func (c *controller) ControllerUnpublishVolume(_ context.Context, r *pb.ControllerUnpublishVolumeRequest) (*pb.ControllerUnpublishVolumeResponse, error) {
	d, err := c.disks.find("disks", r.VolumeId)
	if err != nil || d == nil {
		return &pb.ControllerUnpublishVolumeResponse{}, err
	}
	if d.Staged[r.NodeId] {
		return nil, c.disks.blame("disk %s is to be detached from %s, where it is staged", d.ID, r.NodeId)
	}
	if d.Attached[r.NodeId] {
		if err := c.disks.called("detach", d.ID+" from "+r.NodeId); err != nil {
			return nil, err
		}
	}
	delete(d.Attached, r.NodeId)
	return &pb.ControllerUnpublishVolumeResponse{}, c.disks.put("disks", d)
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *pb.ValidateVolumeCapabilitiesRequest) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	return &pb.ValidateVolumeCapabilitiesResponse{Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}}, nil
}

// GetCapacity is 10 GiB for each node; a class with the parameter node has them
// there alone.
func (c *controller) GetCapacity(_ context.Context, r *pb.GetCapacityRequest) (*pb.GetCapacityResponse, error) {
	if only := r.Parameters["node"]; only != "" && r.AccessibleTopology.GetSegments()[c.host()] != only {
		return &pb.GetCapacityResponse{}, nil
	}
	return &pb.GetCapacityResponse{AvailableCapacity: 10 << 30}, nil
}

func (c *controller) ControllerExpandVolume(_ context.Context, r *pb.ControllerExpandVolumeRequest) (*pb.ControllerExpandVolumeResponse, error) {
	d, err := c.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	d.Size = max(d.Size, r.CapacityRange.GetRequiredBytes())
	if d.Block {
		if err := os.Truncate(c.disks.image(d.ID), d.Size); err != nil {
			return nil, err
		}
	}
	if err := c.disks.put("disks", d); err != nil {
		return nil, err
	}
	return &pb.ControllerExpandVolumeResponse{CapacityBytes: d.Size, NodeExpansionRequired: true}, c.disks.called("enlarge", d.ID)
}

func (c *controller) ControllerModifyVolume(_ context.Context, r *pb.ControllerModifyVolumeRequest) (*pb.ControllerModifyVolumeResponse, error) {
	d, err := c.disks.get("disks", r.VolumeId)
	if err != nil {
		return nil, err
	}
	if d.Parameters == nil {
		d.Parameters = map[string]string{}
	}
	maps.Copy(d.Parameters, r.MutableParameters)
	if err := c.disks.put("disks", d); err != nil {
		return nil, err
	}
	return &pb.ControllerModifyVolumeResponse{}, c.disks.called("modify", d.ID)
}

func (c *controller) CreateSnapshot(_ context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	s, err := c.disks.find("snapshots", r.Name)
	if err != nil {
		return nil, err
	}
	if s == nil {
		d, err := c.disks.get("disks", r.SourceVolumeId)
		if err != nil {
			return nil, err
		}
		s = &disk{ID: r.Name, Of: d.ID, Size: d.Size, Block: d.Block}
		if err := os.RemoveAll(c.disks.data(s.ID)); err != nil {
			return nil, err
		}
		if err := os.CopyFS(c.disks.data(s.ID), os.DirFS(c.disks.data(d.ID))); err != nil {
			return nil, err
		}
		if err := c.disks.put("snapshots", s); err != nil {
			return nil, err
		}
		if err := c.disks.called("snapshot", d.ID); err != nil {
			return nil, err
		}
	}
	made, err := os.Stat(c.disks.path("snapshots", s.ID))
	if err != nil {
		return nil, err
	}
	return &pb.CreateSnapshotResponse{Snapshot: &pb.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Of, SizeBytes: s.Size, ReadyToUse: true,
		CreationTime: timestamppb.New(made.ModTime().Truncate(time.Second))}}, nil
}

func (c *controller) DeleteSnapshot(_ context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	return &pb.DeleteSnapshotResponse{}, c.disks.remove("snapshots", r.SnapshotId)
}
