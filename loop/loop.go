// Package loop is the reconciliation loop: for one key at a time it observes,
// compares and acts, and says how far it has come.
//
//	        Look(key)                 Reconcile(ctx, key)
//	events ----------> queue of keys ----------> observe, plan, one write
//	                    ^                               |
//	                    |   error: back-off             v
//	                    +---- Acting: at once ------ Outcome
//	                    +---- Waiting: After ----------+--> Gaps, Observer
//
// Events only say "look sooner": a key that is looked at twice, late or in
// another order converges to the same state. Reconcile reads the present
// state itself, makes at most one write (so that a crash can be tried between
// any two) and returns Acting when it wrote, Converged when there is nothing
// to do and Waiting when the next step is somebody else's.
//
// Concurrency: one key is never reconciled by two workers at once. All
// methods may be called from many goroutines.
//
// Failure: an error from Reconcile is a gap as well; the key is looked at
// again after a back-off (5 ms doubling to MaxBackoff). A panic in Reconcile
// is not caught.
//
// Testing: time is the time package's, so a loop runs in a testing/synctest
// bubble.
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Key names what is reconciled: an object, by namespace and name.
type Key = types.NamespacedName

// State is how far a loop has come with one key.
type State int

const (
	// Converged: the world is as claimed; nothing was written.
	Converged State = iota
	// Acting: a step was taken; the key is looked at again at once.
	Acting
	// Waiting: the next step is somebody else's, or a time's.
	Waiting
	// Failing: Reconcile returned an error. Only the loop itself sets it.
	Failing
)

func (s State) String() string {
	return [...]string{"converged", "acting", "waiting", "failing"}[s]
}

// Outcome is what one look at a key came to.
type Outcome struct {
	State State
	// On is the object waited for ("Pod default/web-1"), empty for a time.
	On string
	// Reason says in a short sentence what is waited for, or what was done.
	Reason string
	// After, when not 0, asks for another look after that time, whatever
	// happens before.
	After time.Duration
}

// Done says that the world is as claimed.
func Done() Outcome { return Outcome{State: Converged} }

// DoneUntil says that the world is as claimed, and may not be after d.
func DoneUntil(d time.Duration) Outcome { return Outcome{State: Converged, After: d} }

// Acted says which step was taken.
func Acted(format string, args ...any) Outcome {
	return Outcome{State: Acting, Reason: fmt.Sprintf(format, args...)}
}

// WaitFor says which object the loop waits for and why.
func WaitFor(on, format string, args ...any) Outcome {
	return Outcome{State: Waiting, On: on, Reason: fmt.Sprintf(format, args...)}
}

// In asks for another look after d as well.
func (o Outcome) In(d time.Duration) Outcome {
	o.After = d
	return o
}

// Gap is a key that is not converged.
type Gap struct {
	Loop   string
	Key    Key
	State  State
	On     string
	Reason string
	Since  time.Time // when this reason was first given
}

// Options of a Loop.
type Options struct {
	Name string // of the loop, by which people find it: "deployment"
	// Reconcile looks at one key. See the package comment.
	Reconcile func(ctx context.Context, key Key) (Outcome, error)
	Workers   int // keys reconciled at the same time; 0 means 4
	// MaxBackoff bounds the back-off after errors; 0 means 5 minutes.
	MaxBackoff time.Duration
	Logger     *slog.Logger // nil: no log
	// Observer, when not nil, is told each outcome. It must be quick.
	Observer func(key Key, o Outcome, err error, took time.Duration)
}

// Loop is a queue of keys and the workers that look at them.
type Loop struct {
	opts  Options
	queue workqueue.TypedRateLimitingInterface[Key]

	mu   sync.Mutex
	gaps map[Key]Gap // guarded by mu; keys whose last outcome was not Converged
}

// New makes a loop; Run turns it.
func New(opts Options) *Loop {
	if opts.Workers == 0 {
		opts.Workers = 4
	}
	if opts.MaxBackoff == 0 {
		opts.MaxBackoff = 5 * time.Minute
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[Key](5*time.Millisecond, opts.MaxBackoff)
	return &Loop{
		opts:  opts,
		queue: workqueue.NewTypedRateLimitingQueue(limit),
		gaps:  map[Key]Gap{},
	}
}

// Look asks for a look at key soon.
func (l *Loop) Look(key Key) { l.queue.Add(key) }

// LookAfter asks for a look at key after d.
func (l *Loop) LookAfter(key Key, d time.Duration) { l.queue.AddAfter(key, d) }

// Name of the loop.
func (l *Loop) Name() string { return l.opts.Name }

// Len is the number of keys that wait for a look.
func (l *Loop) Len() int { return l.queue.Len() }

// Open tells whether the last look at key left a gap.
func (l *Loop) Open(key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.gaps[key]
	return open
}

// Stop lets go of a loop that is not going to run; Run stops it otherwise.
func (l *Loop) Stop() { l.queue.ShutDown() }

// Run turns the loop until ctx ends and every look in progress has ended. A
// loop runs once.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var wg sync.WaitGroup
	for range l.opts.Workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (l *Loop) next(ctx context.Context) bool {
	key, down := l.queue.Get()
	if down {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true // the queue is shutting down: drain it without acting
	}
	start := time.Now()
	outcome, err := l.opts.Reconcile(ctx, key)
	took := time.Since(start)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return true
	}
	l.settle(key, outcome, err, start)
	l.log(ctx, key, outcome, err, took)
	if l.opts.Observer != nil {
		l.opts.Observer(key, outcome, err, took)
	}
	return true
}

// settle records the outcome and queues the next look.
func (l *Loop) settle(key Key, o Outcome, err error, start time.Time) {
	if err != nil {
		l.record(Gap{Loop: l.opts.Name, Key: key, State: Failing, Reason: err.Error(), Since: start})
		l.queue.AddRateLimited(key)
		return
	}
	l.queue.Forget(key)
	if o.State == Converged {
		l.mu.Lock()
		delete(l.gaps, key)
		l.mu.Unlock()
	} else {
		l.record(Gap{Loop: l.opts.Name, Key: key, State: o.State, On: o.On, Reason: o.Reason, Since: start})
	}
	if o.State == Acting {
		l.queue.Add(key)
	}
	if o.After > 0 {
		l.queue.AddAfter(key, o.After)
	}
}

// record keeps the time of a gap whose reason has not changed.
func (l *Loop) record(g Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.gaps[g.Key]; ok && had.State == g.State && had.On == g.On && had.Reason == g.Reason {
		return
	}
	l.gaps[g.Key] = g
}

func (l *Loop) log(ctx context.Context, key Key, o Outcome, err error, took time.Duration) {
	level, state := slog.LevelDebug, o.State
	if err != nil {
		level, state = slog.LevelInfo, Failing
	}
	if !l.opts.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("loop", l.opts.Name), slog.String("key", key.String()),
		slog.String("outcome", state.String()), slog.Duration("took", took)}
	if o.On != "" {
		attrs = append(attrs, slog.String("on", o.On))
	}
	if o.Reason != "" {
		attrs = append(attrs, slog.String("reason", o.Reason))
	}
	if o.After > 0 {
		attrs = append(attrs, slog.Duration("next", o.After))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	l.opts.Logger.LogAttrs(ctx, level, "looked", attrs...)
}

// Gaps lists the keys that are not converged, oldest first.
func (l *Loop) Gaps() []Gap {
	l.mu.Lock()
	gaps := make([]Gap, 0, len(l.gaps))
	for _, g := range l.gaps {
		gaps = append(gaps, g)
	}
	l.mu.Unlock()
	sort.Slice(gaps, func(i, j int) bool { return gaps[i].Since.Before(gaps[j].Since) })
	return gaps
}
