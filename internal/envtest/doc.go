// Package envtest lets the test suites of operators run against Setpoint
// unchanged. controller-runtime's envtest, and what is built like it, starts
// the programs `etcd` and `kube-apiserver` from a folder (KUBEBUILDER_ASSETS)
// with flags of its own; Fill makes such a folder:
//
//	kube-apiserver  a launcher: setpoint envtest kube-apiserver FLAGS
//	etcd            a launcher: setpoint envtest etcd FLAGS
//	kubectl         a link to the kubectl that setpoint carries
//
// RunAPIServer is a whole API server with its store in memory; RunEtcd holds
// the address that it is given, answers health checks, and stores nothing.
// Both take every flag: those that mean something here are obeyed, those of
// no consequence are passed over, and for all others a line on standard error
// says that they have no effect.
//
// Each Run function blocks until its context ends, or the process that started
// this one: a test that is killed stops nothing itself. Any number of them run
// beside each other: all they share is the machine's ports.
//
// https://book.kubebuilder.io/reference/envtest
package envtest
