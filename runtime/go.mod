module github.com/setpoint-project/setpoint/runtime

go 1.26.0

tool (
	github.com/containerd/containerd/v2/cmd/containerd
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	github.com/containernetworking/plugins/plugins/ipam/host-local
	github.com/containernetworking/plugins/plugins/main/bridge
	github.com/containernetworking/plugins/plugins/main/loopback
	github.com/containernetworking/plugins/plugins/meta/portmap
	github.com/opencontainers/runc
)

require (
	github.com/containerd/containerd/v2 v2.4.2
	github.com/containernetworking/plugins v1.10.0
	github.com/opencontainers/runc v1.5.3
)
