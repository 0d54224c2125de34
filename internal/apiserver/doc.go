// Package apiserver is the front door of the cluster: the one part that
// touches the store, and the one path that every request takes, whether it
// comes over HTTP or from a loop in this process.
//
//	HTTP bytes --parse--> request --authenticate--> --authorize--+
//	in-process client ------------> request --------> --authorize--+
//	                                                             |
//	   decode -> default -> hub version -> admit -> prepare -> validate
//	                                                             |
//	   store (protobuf, etcd's layout)  <------------------------+
//	     |  one watch over everything
//	     v
//	   hub --by kind, namespace, node--> watchers (HTTP) and views (in process)
//
// Objects are immutable once stored. The decoded form of each lies beside its
// record in the store (Record.Decoded holds an *entry) with the encodings that
// somebody asked for, each made once and shared by get, list, watch and the
// answer of the write. Entries that nobody read for a while are dropped and
// made again when needed.
//
// Use: New, then Run in a goroutine, and ServeHTTP or Client for requests.
//
// Concurrency: all exported methods may be called from many goroutines.
//
// Failure: every error that leaves this package is a metav1.Status with the
// code, reason and causes that Kubernetes gives. A watcher that reads too
// slowly is cut off and takes up its watch again where it was.
//
// Testing: package apitest gives a running server on a store in memory. Without
// network traffic the server works inside a testing/synctest bubble.
package apiserver
