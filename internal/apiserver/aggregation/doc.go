// Package aggregation lets others serve parts of the API: an APIService names
// the service that serves a version of a group, and requests to it are handed
// on.
// https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
//
//	APIService --loop--> asks the service --> its condition, and a route
//	request, authorized --Extension--> route --TLS, X-Remote-User--> service
//
// Who is served by us stands in the list as well: local APIServices are
// written, and taken away, by the same loop.
//
// A few versions are served in this process without being kinds (Config.Builtin:
// metrics.k8s.io). An APIService for one of them takes its place, and gives it
// back when it goes.
//
// The server behind a service knows the front door by its client certificate,
// whose authority it reads from a ConfigMap (identity.go). Both are new with
// each start.
//
// Concurrency: requests read the routes without a lock. The loop alone writes
// them.
//
// Failure: a service that does not answer is Unavailable, with the reason in
// its condition; requests to it are answered 503 at once, and no other part of
// the API waits for it.
package aggregation
