package fairness

import (
	"container/heap"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// MaxSeats is the most that one request takes.
const MaxSeats = 10

// ErrTooMany refuses a request: it may be sent again a little later.
var ErrTooMany = errors.New("too many requests, please try again later")

// Options of a Limiter. The zero value will do.
type Options struct {
	// Seats is how many may run at once; 0: as many as keep this machine busy
	// and group commit well fed, and no more.
	Seats int
	// Queue is how many requests of one flow may wait; 0: 200.
	Queue int
	// MaxWait is how long one may wait; 0: 15 s.
	MaxWait time.Duration
}

// Limiter admits requests. See the package comment.
type Limiter struct {
	opts Options
	plan atomic.Pointer[plan]

	mu      sync.Mutex
	inUse   int                  // guarded by mu; seats of all levels
	waiting []*level             // guarded by mu; those with requests in queues
	turn    int                  // guarded by mu; whose turn it is among them
	tallies map[[2]string]*tally // guarded by mu; by schema and level
}

// level is a priority level at work. But for its name it is guarded by
// Limiter.mu.
type level struct {
	name    string
	exempt  bool
	reject  bool // in place of queueing
	nominal int  // its own seats

	inUse    int
	queued   int
	flows    map[string]*flow
	order    flows // the flows with requests, by whose turn it is
	turn     int64 // the turn of the flow that was last served
	rejected int64
	served   int64
}

// flow is what a level tells apart: the requests of one user, as a rule.
type flow struct {
	key   string
	queue []*waiter
	turn  int64 // grows by the seats that it was given
	at    int   // in level.order
}

type waiter struct {
	seats   int
	granted bool // guarded by Limiter.mu
	ready   chan struct{}
}

// Ticket is the right to run. The zero Ticket holds nothing.
type Ticket struct {
	limiter *Limiter
	level   *level
	seats   int
	tally   *tally
}

// New makes a limiter with what is built in.
func New(o Options) *Limiter {
	if o.Seats <= 0 {
		o.Seats = 64 + 32*runtime.GOMAXPROCS(0)
	}
	if o.Queue <= 0 {
		o.Queue = 200
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 15 * time.Second
	}
	l := &Limiter{opts: o}
	l.Set(nil, nil)
	return l
}

// Enter waits until a request may run. The ticket must be given back with Done.
func (l *Limiter) Enter(ctx context.Context, r *Request, seats int) (Ticket, Matched, error) {
	s := l.plan.Load().match(r)
	m := Matched{s.uid, s.levelUID}
	if s.exempt {
		s.tally.dispatched.Add(1)
		return Ticket{}, m, nil
	}
	lv, seats := s.level, min(max(seats, 1), MaxSeats)
	t := Ticket{l, lv, seats, s.tally}
	l.mu.Lock()
	if lv.queued == 0 && l.admitsLocked(lv, seats) {
		l.takeLocked(lv, seats)
		l.mu.Unlock()
		s.tally.begin()
		return t, m, nil
	}
	w := l.queueLocked(lv, s.flow(r), seats)
	full := queueFull
	if lv.reject {
		full = concurrencyLimit
	}
	l.mu.Unlock()
	if w == nil {
		s.tally.rejected[full].Add(1)
		return Ticket{}, m, ErrTooMany
	}
	s.tally.waiting.Add(1)
	err := l.wait(ctx, lv, w)
	s.tally.waiting.Add(-1)
	switch {
	case err == ErrTooMany:
		s.tally.rejected[timeOut].Add(1)
		return Ticket{}, m, err
	case err != nil:
		s.tally.rejected[cancelled].Add(1)
		return Ticket{}, m, err
	}
	s.tally.begin()
	return t, m, nil
}

// admitsLocked: a level has its own seats for certain, and beyond them what
// nobody uses. One request of each level may always run, whatever it costs.
func (l *Limiter) admitsLocked(lv *level, seats int) bool {
	return lv.inUse == 0 || lv.inUse+seats <= lv.nominal || l.inUse+seats <= l.opts.Seats
}

func (l *Limiter) takeLocked(lv *level, seats int) {
	lv.inUse += seats
	l.inUse += seats
	lv.served++
}

// queueLocked returns nil when there is no room.
func (l *Limiter) queueLocked(lv *level, key string, seats int) *waiter {
	f := lv.flows[key]
	if lv.reject || f != nil && len(f.queue) >= l.opts.Queue {
		lv.rejected++
		return nil
	}
	w := &waiter{seats: seats, ready: make(chan struct{})}
	if f == nil {
		f = &flow{key: key, turn: lv.turn}
		lv.flows[key] = f
		heap.Push(&lv.order, f)
	}
	f.queue = append(f.queue, w)
	if lv.queued++; lv.queued == 1 {
		l.waiting = append(l.waiting, lv)
	}
	return w
}

func (l *Limiter) wait(ctx context.Context, lv *level, w *waiter) error {
	late := time.NewTimer(l.opts.MaxWait)
	defer late.Stop()
	err := ErrTooMany
	select {
	case <-w.ready:
		return nil
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.granted { // at the same moment
		if err == ErrTooMany {
			return nil
		}
		l.giveLocked(lv, w.seats)
		return err
	}
	lv.drop(w)
	lv.rejected++
	l.idleLocked()
	l.nextLocked() // what is behind it may cost less
	return err
}

// Done gives the seats back.
func (t *Ticket) Done() {
	if t.limiter == nil {
		return
	}
	t.limiter.mu.Lock()
	t.limiter.giveLocked(t.level, t.seats)
	t.limiter.mu.Unlock()
	t.tally.running.Add(-1)
	t.limiter = nil
}

func (l *Limiter) giveLocked(lv *level, seats int) {
	lv.inUse -= seats
	l.inUse -= seats
	if len(l.waiting) > 0 {
		l.nextLocked()
	}
}

// nextLocked lets run who may, level by level in turn.
func (l *Limiter) nextLocked() {
	for idle := 0; idle < len(l.waiting); {
		l.turn = (l.turn + 1) % len(l.waiting)
		lv := l.waiting[l.turn]
		f := lv.order[0]
		w := f.queue[0]
		if !lv.exempt && !l.admitsLocked(lv, w.seats) {
			idle++
			continue
		}
		idle = 0
		l.takeLocked(lv, w.seats)
		lv.turn = f.turn
		f.turn += int64(w.seats)
		lv.drop(w)
		w.granted = true
		close(w.ready)
		l.idleLocked()
	}
}

// idleLocked forgets levels where nobody waits.
func (l *Limiter) idleLocked() {
	n := 0
	for _, lv := range l.waiting {
		if lv.queued > 0 {
			l.waiting[n] = lv
			n++
		}
	}
	clear(l.waiting[n:])
	l.waiting = l.waiting[:n]
}

// drop takes a request out of its queue.
func (lv *level) drop(w *waiter) {
	for _, f := range lv.order {
		for i := range f.queue {
			if f.queue[i] != w {
				continue
			}
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
			lv.queued--
			if len(f.queue) == 0 {
				heap.Remove(&lv.order, f.at)
				delete(lv.flows, f.key)
			} else {
				heap.Fix(&lv.order, f.at)
			}
			return
		}
	}
}

// flows are a heap by turn.
type flows []*flow

func (h flows) Len() int           { return len(h) }
func (h flows) Less(i, j int) bool { return h[i].turn < h[j].turn }
func (h flows) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *flows) Push(x any) {
	f := x.(*flow)
	f.at = len(*h)
	*h = append(*h, f)
}
func (h *flows) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return f
}
