// Package containerd runs the container runtime that the setpoint binary
// carries.
//
// Unpack puts it on disk. A Supervisor starts its daemon apart from our own
// process, keeps it running, takes over one that runs already, and takes
// everything down again when asked to. ImportImage, ListImages and RemoveImage
// work on its image store.
//
// Containers do not depend on us: the daemon and the shims that hold the
// containers outlive this process, and the shims outlive the daemon. Whatever
// dies is found again by the next Supervisor of the same instance.
//
// Everything is keyed by an instance and a data folder, so that several
// clusters live side by side on one machine:
//
//	DATA/bin/<hash>/           the programs, one folder for each version
//	DATA/containerd/root/      images, snapshots, metadata
//	DATA/containerd/config-<hash>.toml, containerd.log, registries/
//	/run/setpoint-<instance>/  sockets, state of running containers
//
// The last is short because socket paths are bound to 107 bytes, and is
// under /run because its content must not outlive a reboot.
//
// Tests need root, and skip where they have none.
package containerd
