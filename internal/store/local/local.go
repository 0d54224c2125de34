// Package local is the store of one process: the live set in memory, every
// write on disk in Pebble before it is acknowledged.
//
//		callers ── queue ──> writer ──> Pebble (one synced batch) ──> state
//		                                                               │
//		readers <── atomic pointer: live tree + revision + event log ──┘
//		watches <── woken by key, read the log (or, far behind, the disk)
//
//	 1. A write joins the queue. The writer, a single goroutine, takes all that
//	    wait, checks their conditions in order (each sees those before it),
//	    gives each a revision, and commits them as one batch with one fsync.
//	 2. Only then it publishes the next state: a copy-on-write tree of live
//	    records and a log of recent events, behind one atomic pointer. Readers
//	    take no lock and see nothing that a crash could take back.
//	 3. It acknowledges, and wakes the watches whose prefix a key has.
//
// Purpose: the default store of a cluster with one server. With Options.Dir
// empty and no file system it keeps everything in memory and starts in
// microseconds; its goroutine then blocks on channels only, so that it may
// live in a testing/synctest bubble.
//
// History: an old revision is read from the log while the log reaches back
// that far, then from Pebble, where every version of a key is kept until
// compaction. A store in memory has the log only.
//
// Concurrency: all methods may be called from many goroutines.
//
// Failure: when a batch cannot be made durable the store refuses every later
// write (what is on disk is then unknown to it) and still serves reads;
// opening it again finds the truth. A process that dies at any point loses no
// acknowledged write.
package local

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/setpoint-project/setpoint/internal/store"
)

// Options says where a store lies and how much of its past it keeps.
type Options struct {
	// Dir is the folder of the database, made when it is not there. With FS
	// nil, an empty Dir means memory only.
	Dir string
	// FS is where Dir lies; nil means the disk.
	FS vfs.FS
	// HistoryAge is how long the past is kept at least; 0 means 10 minutes.
	// Whichever of HistoryAge and HistoryRevisions is reached first ends it.
	HistoryAge time.Duration
	// HistoryRevisions is how many revisions are kept; 0 means 100,000. The
	// store may keep a twentieth more.
	HistoryRevisions int64
	// Logger gets what goes wrong in the background, and Pebble's own log at
	// debug level; nil means silence.
	Logger *slog.Logger

	// Small in tests, so that little is enough to go beyond.
	logs     limits // of the log of recent events
	memTable uint64 // bytes of a Pebble memtable
}

func (o *Options) setDefaults() {
	if o.HistoryAge == 0 {
		o.HistoryAge = 10 * time.Minute
	}
	if o.HistoryRevisions == 0 {
		o.HistoryRevisions = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.memTable == 0 {
		o.memTable = 8 << 20
	}
	switch {
	case o.logs.events != 0:
	case o.Dir == "":
		// There is nothing else to read the past from.
		o.logs = limits{events: o.HistoryRevisions, bytes: 64 << 20}
	default:
		o.logs = limits{events: 20_000, bytes: 8 << 20}
	}
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if o.HistoryAge < 0 {
		return fmt.Errorf("store: HistoryAge is %v, it may not be negative", o.HistoryAge)
	}
	if o.HistoryRevisions < 0 {
		return fmt.Errorf("store: HistoryRevisions is %d, it may not be negative", o.HistoryRevisions)
	}
	if o.FS != nil && o.Dir == "" {
		return errors.New("store: Dir is empty, with FS it names a folder in that file system")
	}
	return nil
}

// Store implements store.Store. See the package comment.
type Store struct {
	disk  *disk // nil when in memory only
	state atomic.Pointer[state]
	hub   hub

	w writer

	quit   chan struct{} // closed when Close begins
	closed atomic.Bool
	done   sync.WaitGroup // the goroutines of the store

	closing  sync.Once
	closeErr error
}

var _ store.Store = (*Store)(nil)

// state is one moment of the store. It never changes; the writer replaces it.
type state struct {
	revision int64
	oldest   int64 // Range and Watch serve from here on
	live     tree
	log      log
}

// Open opens the store in o.Dir, or makes it.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	s := &Store{quit: make(chan struct{})}
	first := &state{revision: 1, oldest: 1, live: newTree()}
	if o.Dir != "" {
		d, err := openDisk(o)
		if err != nil {
			return nil, err
		}
		if first, err = d.load(); err != nil {
			return nil, errors.Join(err, d.close())
		}
		s.disk = d
	}
	first.log = newLog(first.revision)
	s.state.Store(first)
	s.hub.init()
	s.w.init(s, first, o)

	s.done.Go(s.w.run)
	if s.disk != nil {
		s.done.Go(func() { s.disk.compactor(s) })
	}
	return s, nil
}

// Revision is the newest durable revision.
func (s *Store) Revision() int64 { return s.state.Load().revision }

// Oldest is the oldest revision that Range and Watch serve.
func (s *Store) Oldest() int64 { return s.state.Load().oldest }

// Close ends all watches, lets the batch under way come to its end, refuses
// what still waits, and closes the database. It may be called again.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		close(s.quit)
		s.done.Wait()
		if s.disk != nil {
			s.closeErr = s.disk.close()
		}
	})
	return s.closeErr
}
