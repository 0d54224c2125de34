// Package csi runs the sidecars with which CSI drivers are installed anywhere
// (external-provisioner, -attacher, -resizer and -snapshotter, and the controller
// of snapshots) against a cluster of two nodes with real containers. They are
// built from their published modules, and have the rights that their own
// manifests give them; what is between them, the binder, the loop that attaches,
// the scheduler and the kubelet, is ours. The driver is ours too (folder driver),
// since the host-path driver and node-driver-registrar are not published as
// modules.
//
// It needs root, SETPOINT, the program to test, and the module proxy, without
// which it skips and says so.
package csi
