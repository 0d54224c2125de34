package controllertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
)

// All in virtual time.
const (
	lag  = 300 * time.Millisecond
	slow = 200 * time.Millisecond
	// storm is how long the faults go on after Meanwhile.
	storm = time.Minute
	// settling is enough for the longest back-off of a loop, twice.
	settling = 12 * time.Minute
	// quiet is how long nothing may be written.
	quiet = 15 * time.Minute
	// lives bounds the crashes of one play.
	lives = 4
)

// Run plays a Case for each seed.
func Run(t *testing.T, c Case) {
	t.Helper()
	if c.Faults == (client.Faults{}) {
		c.Faults = DefaultFaults
	}
	// A play leaves little behind: most of what the collector would do is to look.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	first, runs := seeds(t, c.Runs)
	t.Logf("seeds %d to %d", first, first+runs-1)
	if processes := number(t, processesVariable); processes > 1 && runs > 1 {
		spread(t, first, runs, processes)
		return
	}
	for seed := first; seed < first+runs && !t.Failed(); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			good := play(t, c, seed, 0)
			if t.Failed() {
				return
			}
			bad := play(t, c, seed, max(1, len(good.writes)))
			if d := cmp.Diff(good.end, bad.end); d != "" {
				t.Errorf("the end differs (-without +with faults), replay with -seed %d:\n%s\nwrites with faults:\n%s\nwrites without:\n%s", seed, d, bad.log(), good.log())
			}
		})
	}
}

type result struct {
	end    string
	writes []client.Write
}

func (r result) log() (text string) {
	for i, w := range r.writes {
		text += fmt.Sprintf("%4d %s\n", i+1, w)
	}
	return text
}

// play plays a seed; writes is how many the good play needed, 0 for the good
// play itself.
func play(t *testing.T, c Case, seed uint64, writes int) (r result) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, c.Server)
		w := &World{
			TB: t, Seed: seed, Rand: rand.New(rand.NewPCG(seed, 1)), Client: h.Client("tester"),
			Faulty: writes > 0, Copies: 1,
		}
		copies, nth := copiesOf(t, seed)
		if w.Faulty && !c.Single {
			w.Copies = copies
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		if c.Others != nil {
			for _, o := range c.Others(controllers.Options{Client: h.Client("others")}) {
				wg.Go(func() { o.Run(ctx) })
			}
		}
		c.Start(w)
		var stages []*stage
		for i := range w.Copies {
			s := &stage{
				c: c, w: w, copy: i, nth: nth, inner: h.Client("loops"),
				rnd: rand.New(rand.NewPCG(seed, uint64(2+i))), writes: writes, calm: writes == 0,
			}
			stages = append(stages, s)
			wg.Go(func() { s.run(ctx) })
		}
		if c.Meanwhile != nil {
			w.Rest(3 * time.Second)
			c.Meanwhile(w)
		}
		if w.Faulty {
			time.Sleep(storm)
		}
		for _, s := range stages {
			s.quieten()
		}
		time.Sleep(settling)
		settled := len(w.Writes())
		time.Sleep(quiet)
		all := w.Writes()
		loud := slices.DeleteFunc(slices.Clone(all[settled:]), func(w client.Write) bool { return c.Renewal != nil && c.Renewal(w) })
		if len(loud) > 0 {
			t.Errorf("seed %d: %d writes in a quiet world, the first: %v", seed, len(loud), loud[0])
		}
		r = result{end: c.End(w), writes: all}
		if c.Check != nil {
			if err := c.Check(w); err != nil {
				t.Errorf("seed %d, faults %t: %v\n%s\n%s", seed, w.Faulty, err, r.end, r.log())
			}
		}
		cancel()
		wg.Wait()
		synctest.Wait()
	})
	return r
}

// stage is where one copy of the loops lives, crashes and lives again.
type stage struct {
	c      Case
	w      *World
	copy   int // which one, from 0 on
	nth    int // the seed is among those with as many copies
	inner  client.Interface
	rnd    *rand.Rand
	writes int

	mu   sync.Mutex
	now  *client.Faulty // guarded by mu: of the present life
	calm bool           // guarded by mu
}

func (s *stage) run(ctx context.Context) {
	for life := 0; ctx.Err() == nil; life++ {
		s.live(ctx, life)
		if ctx.Err() == nil {
			time.Sleep(time.Duration(s.rnd.Int64N(int64(2 * time.Second))))
		}
	}
}

// live runs the loops until they crash or ctx ends.
func (s *stage) live(ctx context.Context, life int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	faults := s.c.Faults
	faults.Seed = s.w.Seed<<8 | uint64(s.copy)<<7 | uint64(life)
	faulty := client.WithFaults(s.inner, faults)
	faulty.OnWrite(func(w client.Write) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.w.writes = append(s.w.writes, w)
	})
	s.mu.Lock()
	s.now = faulty
	if s.calm {
		faulty.Calm()
	} else if at, before := s.crash(life); at > 0 {
		faulty.CrashAt(at, before, cancel)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, l := range s.c.Loops(controllers.Options{Client: faulty}) {
		wg.Go(func() { l.Run(ctx) })
	}
	wg.Wait()
	faulty.Close()
}

// crash says before or after which write of a life to crash; 0 is none. The
// first copy's first lives crash at each write in turn as seeds go on.
func (s *stage) crash(life int) (at int, before bool) {
	switch {
	case life >= lives:
		return 0, false
	case life == 0 && s.copy == 0:
		return 1 + s.nth%s.writes, s.nth/s.writes%2 == 0
	}
	return 1 + s.rnd.IntN(2*s.writes), s.rnd.IntN(2) == 0
}

func (s *stage) quieten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
	if s.now != nil {
		s.now.Calm()
	}
}
