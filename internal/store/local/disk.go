package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/setpoint-project/setpoint/internal/store"
)

// disk is the Pebble database below a store.
type disk struct {
	db   *pebble.DB
	lock *pebble.Lock
	log  *pebbleLog
	fs   *guardFS

	compact chan struct{} // one slot: history may be forgotten up to state.oldest
	oldest  int64         // up to where it is forgotten on disk; the compactor's

	// using is held shared by who reads the database, so that Close waits.
	using struct {
		sync.RWMutex
		closed bool
	}
	// broken is set when Pebble panicked in a commit: it then holds locks of
	// its own for ever, and closing it would never return.
	broken atomic.Bool
}

func openDisk(o Options) (*disk, error) {
	fs := o.FS
	if fs == nil {
		fs = vfs.Default
	}
	if err := fs.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: cannot make %s: %w", o.Dir, err)
	}
	lock, err := pebble.LockDirectory(o.Dir, fs)
	if err != nil {
		return nil, fmt.Errorf("store: %s is in use by another process, or cannot be locked: %w", o.Dir, err)
	}
	d := &disk{
		lock:    lock,
		log:     &pebbleLog{log: o.Logger},
		fs:      &guardFS{FS: fs},
		compact: make(chan struct{}, 1),
	}
	if d.db, err = openPebble(o, d.fs, lock, d.log); err != nil {
		return nil, fmt.Errorf("store: cannot open %s: %w", o.Dir, err)
	}
	if err := d.failed(); err != nil {
		return nil, errors.Join(fmt.Errorf("store: cannot write to %s: %w", o.Dir, err), d.close())
	}
	if err := d.checkFormat(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// openPebble opens the database. Pebble tries again for ever to write a table
// for which there is no room, also while it opens; then openPebble gives up. The
// folder stays locked until Pebble has come to an end of it, or the process has.
func openPebble(o Options, fs *guardFS, lock *pebble.Lock, log *pebbleLog) (*pebble.DB, error) {
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	trouble := make(chan error, 1)
	options := pebbleOptions(fs, lock, log, o.memTable)
	options.EventListener = &pebble.EventListener{BackgroundError: func(err error) {
		fs.keep(err)
		select {
		case trouble <- err:
		default:
		}
		time.Sleep(retryEvery)
	}}
	go func() {
		db, err := pebble.Open(o.Dir, options)
		done <- opened{db, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return nil, errors.Join(got.err, lock.Close())
		}
		return got.db, nil
	case err := <-trouble:
		go func() {
			if got := <-done; got.err == nil {
				got.db.Close()
			}
			lock.Close()
		}()
		return nil, err
	}
}

// retryEvery is the pause between Pebble's attempts to write a table, which by
// itself makes none. It holds locks of Pebble's meanwhile.
const retryEvery = 100 * time.Millisecond

// pebbleOptions keeps Pebble small: the live set is in memory already, what is
// read from it is the past, and seldom.
func pebbleOptions(fs vfs.FS, lock *pebble.Lock, log *pebbleLog, memTable uint64) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		Lock:                        lock,
		Logger:                      log,
		FormatMajorVersion:          pebble.FormatNewest,
		CacheSize:                   1 << 20,
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                256,
		// Fewer, larger compactions: space is cheaper here than CPU.
		L0CompactionThreshold:      4,
		L0StopWritesThreshold:      24,
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	o.Experimental.FileCacheShards = 1
	return o
}

func (d *disk) checkFormat() error {
	v, ok, err := d.get(formatKey)
	if err != nil {
		return fmt.Errorf("store: cannot read the format: %w", err)
	}
	if !ok {
		// No sync: whatever is written later makes this durable as well.
		return d.db.Set(formatKey, []byte(format), pebble.NoSync)
	}
	if string(v) != format {
		return fmt.Errorf("store: the folder has format %q, this program knows %q: it was written by a newer one", v, format)
	}
	return nil
}

// get returns a copy of a value.
func (d *disk) get(key []byte) (value []byte, ok bool, err error) {
	v, closer, err := d.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value = append([]byte{}, v...)
	return value, true, closer.Close()
}

// commit makes a batch durable when sync is set. After an error the database
// may not be written any more.
func (d *disk) commit(b *pebble.Batch, sync bool) (err error) {
	defer func() {
		// Pebble panics on some errors that guardFS cannot keep from it.
		if p := recover(); p != nil {
			d.broken.Store(true)
			err = fmt.Errorf("store: the database failed: %v", p)
		}
	}()
	if err := d.failed(); err != nil {
		return err
	}
	if sync {
		// Not Apply: it hides the error of a failed sync in Logger.Fatalf.
		if err := d.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
			return err
		}
		if err := b.SyncWait(); err != nil {
			return err
		}
	} else if err := d.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	return d.failed()
}

// failed tells why nothing written any more can be trusted to be on disk.
func (d *disk) failed() error {
	if err := d.fs.failed(); err != nil {
		return err
	}
	return d.log.failed()
}

// load reads the newest state.
func (d *disk) load() (*state, error) {
	st := &state{revision: 1, oldest: 1, live: newTree()}
	if v, ok, err := d.get(oldestKey); err != nil {
		return nil, fmt.Errorf("store: cannot read the oldest revision: %w", err)
	} else if ok {
		if st.oldest, err = strconv.ParseInt(string(v), 10, 64); err != nil {
			return nil, fmt.Errorf("store: malformed oldest revision %q", v)
		}
	}
	d.oldest = st.oldest
	newest, err := d.newest()
	if err != nil {
		return nil, err
	}
	// History is only ever forgotten up to a revision that exists.
	st.revision = max(newest, st.oldest)

	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: versionStart, UpperBound: versionEnd})
	if err != nil {
		return nil, fmt.Errorf("store: cannot read: %w", err)
	}
	defer it.Close()
	// The last version of a key counts; what is before it is history.
	var v version
	add := func() {
		if v.value != nil {
			st.live.t.Load(v.record())
		}
	}
	for ok := it.First(); ok; ok = it.Next() {
		key, rev, err := parseVersionKey(it.Key())
		if err != nil {
			return nil, err
		}
		if string(key) != string(v.key) {
			add()
		}
		if err := v.set(key, rev, it); err != nil {
			return nil, err
		}
	}
	add()
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("store: cannot read: %w", err)
	}
	return st, nil
}

// newest returns the newest revision in the history, 0 when it is empty.
func (d *disk) newest() (int64, error) {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: historyStart, UpperBound: historyEnd})
	if err != nil {
		return 0, fmt.Errorf("store: cannot read: %w", err)
	}
	defer it.Close()
	if !it.Last() {
		return 0, it.Error()
	}
	return parseHistoryKey(it.Key())
}

// version is what an iterator stood on, in buffers that are used again.
type version struct {
	key      []byte
	revision int64
	created  int64
	value    []byte // nil for a deletion
	buf      []byte
}

func (v *version) set(key []byte, revision int64, it *pebble.Iterator) error {
	raw, err := it.ValueAndErr()
	if err != nil {
		return fmt.Errorf("store: cannot read: %w", err)
	}
	created, value, err := parseVersion(raw)
	if err != nil {
		return err
	}
	v.key = append(v.key[:0], key...)
	v.revision, v.created = revision, created
	v.buf = append(v.buf[:0], value...)
	v.value = nil
	if value != nil {
		v.value = v.buf[:len(value):len(value)]
		if v.value == nil {
			v.value = []byte{}
		}
	}
	return nil
}

func (v *version) record() *store.Record {
	r := &store.Record{Key: string(v.key), Revision: v.revision, Created: v.created}
	if v.value != nil {
		r.Value = append(make([]byte, 0, len(v.value)), v.value...)
	}
	return r
}

// use keeps the database open until release is called.
func (d *disk) use() error {
	d.using.RLock()
	if d.using.closed {
		d.using.RUnlock()
		return store.ErrClosed
	}
	return nil
}

func (d *disk) release() { d.using.RUnlock() }

// close closes the database. Nobody may write to it any more.
func (d *disk) close() error {
	d.using.Lock()
	defer d.using.Unlock()
	d.using.closed = true
	if d.broken.Load() {
		return errors.New("store: the database failed and stays locked until the process ends")
	}
	err := d.db.Close()
	if err != nil {
		err = fmt.Errorf("store: cannot close the database: %w", err)
	}
	return errors.Join(err, d.lock.Close())
}

// pebbleLog hands Pebble's log on, and remembers what it calls fatal. Pebble
// expects Fatalf not to return, for a caller must not go on as if nothing had
// happened; here commit looks at failed after every batch, which is enough to
// never acknowledge what is not on disk, and spares the rest of the process.
type pebbleLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[error]
}

func (l *pebbleLog) failed() error {
	if p := l.fatal.Load(); p != nil {
		return *p
	}
	return nil
}

func (l *pebbleLog) Infof(f string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(f, args...))
	}
}

func (l *pebbleLog) Errorf(f string, args ...any) { l.log.Error(fmt.Sprintf(f, args...)) }

func (l *pebbleLog) Fatalf(f string, args ...any) {
	err := fmt.Errorf("store: the database failed: "+f, args...)
	l.fatal.CompareAndSwap(nil, &err)
	l.log.Error(err.Error())
}
