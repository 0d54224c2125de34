// Command driver is a CSI driver whole, for the tests of the sidecars: identity,
// controller and node service at one socket, and what registers it, as
// node-driver-registrar does. Its disks are folders and files of one folder that
// all nodes see; those for block devices are attached to loop devices.
//
//	driver NAME NODE DISKS
//
// It holds its callers to the interface: what is asked for out of order is
// refused, and written to DISKS/wrong. DISKS/calls has a line for each call that
// changes something. All it knows lies in DISKS and the mount table, so that it
// may be started again at any time.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want a name, a node and a folder, got %q", args)
	}
	name, node := args[0], args[1]
	d := &driver{name: name, node: node, disks: disks{args[2], node}}
	if err := d.disks.prepare(); err != nil {
		return err
	}
	const socket = "/csi/csi.sock"
	os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(d.serve))
	pb.RegisterIdentityServer(s, d)
	pb.RegisterControllerServer(s, &controller{driver: d})
	pb.RegisterNodeServer(s, &nodeService{driver: d})
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	defer s.Stop()
	unregister, told, err := (&csitest.Driver{Name: name}).Announce("/registration/"+name+"-reg.sock", "/var/lib/kubelet/plugins/"+name+"/csi.sock")
	if err != nil {
		return err
	}
	defer unregister()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for {
		select {
		case <-end:
			return nil
		case err := <-failed:
			return err
		case st := <-told:
			if !st.PluginRegistered {
				return fmt.Errorf("refused: %s", st.Error) // its pod tries again
			}
		}
	}
}

// driver is the identity service, and what the two others share.
type driver struct {
	pb.UnimplementedIdentityServer
	name, node string
	disks      disks
}

// serve has one call at a time look at the disks, on whichever node.
func (d *driver) serve(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	unlock, err := d.disks.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	resp, err := handler(ctx, req)
	if err != nil {
		fmt.Println(info.FullMethod, req, err)
	}
	return resp, err
}

func (d *driver) GetPluginInfo(context.Context, *pb.GetPluginInfoRequest) (*pb.GetPluginInfoResponse, error) {
	return &pb.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	return &pb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *pb.GetPluginCapabilitiesRequest) (*pb.GetPluginCapabilitiesResponse, error) {
	r := &pb.GetPluginCapabilitiesResponse{}
	for _, c := range []pb.PluginCapability_Service_Type{pb.PluginCapability_Service_CONTROLLER_SERVICE, pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS} {
		r.Capabilities = append(r.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_Service_{Service: &pb.PluginCapability_Service{Type: c}}})
	}
	r.Capabilities = append(r.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_VolumeExpansion_{VolumeExpansion: &pb.PluginCapability_VolumeExpansion{Type: pb.PluginCapability_VolumeExpansion_ONLINE}}})
	return r, nil
}

// The keys of the driver's topology: each node is a place of its own, all are in
// the one zone from which every disk is reached.
func (d *driver) zone() string { return d.name + "/zone" }
func (d *driver) host() string { return d.name + "/node" }
