// Package clients runs other people's clients against a cluster: kubectl and
// its kustomize, Helm, the clients for Python and JavaScript, and client-go's
// typed, dynamic, metadata, apply-configuration and informer clients. Nothing
// of them is changed or replaced. It also runs our examples/postgres-operator,
// which is written with controller-runtime: its suite, and the operator itself.
//
// It needs SETPOINT, the program to test. A client that this machine does not
// have, and that its package registry does not give, is skipped and says so:
// HELM names a helm 4, NODE_MODULES a folder that holds @kubernetes/client-node,
// and Debian's python3-kubernetes is looked for where Debian puts it.
package clients
