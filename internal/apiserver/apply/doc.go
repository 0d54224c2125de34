// Package apply keeps metadata.managedFields: who set which field of an
// object, by which kind of request. Server-side apply merges by it.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/
//
//	create, update, patch --Track--> the same object, its managedFields brought
//	                                 up to date
//	apply -----------------Apply---> the merged object, or who disagrees
//
// Every write is tracked, most of them by clients that never apply. So Track
// does not go through the merge library's generic values: it walks the Go type
// by a plan that is made once (plan.go), finds what changed (diff.go), and
// touches the recorded sets only when something did (track.go). Equal sets
// are stored once (share.go). Apply does use the library
// (sigs.k8s.io/structured-merge-diff), with types derived from the Go types
// (types.go) or given by a custom kind's schema.
//
// Nothing is built before it is first needed: no schema for a kind that nobody
// applies, no plan for a kind that nobody writes.
//
// Use: New once a server, then Kind once a kind.
//
// Concurrency: everything may be used from many goroutines.
//
// Failure: Track never fails; where an object cannot be tracked it keeps the
// managedFields that it had. Apply returns errors of the API: a conflict (409)
// with one cause for each field, a bad request, or what the schema does not
// allow.
//
// Testing: Track is held against the library on random objects of every kind,
// the types against those that client-go publishes.
package apply
