//go:build suite

// Package conformance pins Kubernetes' end-to-end suite, and the programs that
// run in its containers, in a module of its own: nothing of either is ever
// linked into setpoint. The tag is never set; what is imported here is built by
// its own path (see run).
package conformance

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/resource-consumer"
	_ "k8s.io/sample-apiserver"
)
