// Package store is the memory of the cluster: keys with values, each write
// under one revision of the whole store, and watches of what came after a
// revision. It is the contract; store/local (in this process, on disk)
// implements it, and store/storetest is the suite that every implementation
// passes.
//
// Keys are laid out as Kubernetes lays them out in etcd
// ("/registry/pods/NAMESPACE/NAME"), values are the same bytes that Kubernetes
// writes there. The store does not look into values.
//
// Only the API server opens a store (law 1: one writer).
//
// Concurrency: every method may be called from many goroutines. Records are
// shared between all who read them and never change.
//
// Failure: a write that returned nil is on disk. A write that returned an
// error other than a *Conflict may or may not have happened.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Record is a key's value as one revision left it. It is immutable, but for
// Decoded, and shared by everyone who reads it.
type Record struct {
	Key      string
	Value    []byte // as stored; nil in the record of a deletion
	Revision int64  // of the write that left this value (a deletion's, in its record)
	Created  int64  // revision of the write that created the key

	// Decoded is the API server's own decoded form of Value, kept beside it so
	// that every reader shares one copy. The store only carries it: set at Put
	// by the writer, or later by the first reader who decodes.
	Decoded atomic.Pointer[any]
}

// Event is one change of one key.
type Event struct {
	// Record is the key after the change. For a deletion its Value is nil and
	// its Revision is the deletion's.
	Record *Record
	// Prev is the key before the change; nil for a creation.
	Prev *Record
}

// Deleted tells whether the event took the key away.
func (e Event) Deleted() bool { return e.Record.Value == nil }

// Any, as the expected revision of a write, puts no condition on the key.
const Any int64 = -1

// Put is a conditional write of one key.
type Put struct {
	Key   string
	Value []byte // handed over: the caller does not change it afterwards
	// Expect is the revision that the key must have now: 0 means that the key
	// must not exist, Any that it does not matter.
	Expect  int64
	Decoded any // kept in the record when not nil
	// Fill, when not nil, makes Value and Decoded once the revision of the
	// write is known. It runs while the store is locked: it must be quick and
	// call nothing of the store.
	Fill func(revision int64) (value []byte, decoded any)
}

// Range asks for the keys with a prefix, in byte order.
type Range struct {
	Prefix string // ends in "/" but for single keys
	// After leaves out all keys up to and including this one (pagination).
	After string
	// Limit is the most records returned; 0 means all.
	Limit int
	// Revision is the moment to read at; 0 means now. Older than what is kept
	// gives ErrCompacted, newer than now ErrFuture.
	Revision int64
}

// Result is what a Range found: a consistent picture at Revision.
type Result struct {
	Records   []*Record // the caller may not change the slice
	Revision  int64     // of the store, at which this is true
	Remaining int       // keys behind the last returned, when cut by Limit
}

// Store is the contract. See the package comment.
type Store interface {
	// Revision is the newest committed revision; a fresh store has 1.
	Revision() int64
	// Oldest is the oldest revision that Range and Watch still serve.
	Oldest() int64

	// Get returns the live record of key, or nil when there is none, and the
	// store's revision at which that is true. It sees every write that was
	// acknowledged before the call.
	Get(ctx context.Context, key string) (*Record, int64, error)
	// Range reads many keys; linearizable when Revision is 0.
	Range(ctx context.Context, r Range) (Result, error)
	// Count counts the live keys with a prefix.
	Count(ctx context.Context, prefix string) (int, error)

	// Put writes one key and returns its new record once it is on disk. A key
	// whose revision is not as expected gives *Conflict.
	Put(ctx context.Context, p Put) (*Record, error)
	// Delete takes a key away when it has the expected revision (Any: whatever
	// it has) and returns the event, whose Record carries the revision of the
	// deletion. A key that is not there gives *Conflict with a nil Current.
	Delete(ctx context.Context, key string, expect int64) (Event, error)

	// Watch delivers every change of the keys with prefix after revision
	// after, in order, each once. A revision that is no longer kept gives
	// ErrCompacted, one in the future is waited for. The watch ends when ctx
	// ends.
	Watch(ctx context.Context, prefix string, after int64) (Watch, error)

	// Compact forgets history up to and including revision; live keys stay.
	Compact(ctx context.Context, revision int64) error
	Close() error
}

// Watch is a stream of changes.
type Watch interface {
	// Next blocks until there is at least one change, and returns all that are
	// there (at most some thousands), in order, with the store's revision up
	// to which the stream is now complete. It never drops a change: a reader
	// who is too slow for the history kept gets ErrCompacted. After an error
	// the watch is dead.
	Next(ctx context.Context) (events []Event, upTo int64, err error)
	Close()
}

var (
	// ErrCompacted: the revision asked for is older than the history kept.
	ErrCompacted = errors.New("store: the requested revision has been compacted")
	// ErrFuture: the revision asked for is newer than the store's.
	ErrFuture = errors.New("store: the requested revision is in the future")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store: closed")
)

// Conflict says that a conditional write found another revision than expected.
type Conflict struct {
	Key     string
	Expect  int64
	Current *Record // nil when the key does not exist
}

func (c *Conflict) Error() string {
	have := int64(0)
	if c.Current != nil {
		have = c.Current.Revision
	}
	return fmt.Sprintf("store: %s is at revision %d, expected %d", c.Key, have, c.Expect)
}
