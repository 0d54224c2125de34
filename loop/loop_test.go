package loop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// turn runs a loop over reconcile in a bubble, calls f, and stops the loop.
func turn(t *testing.T, opts Options, f func(l *Loop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if opts.Name == "" {
			opts.Name = "test"
		}
		l := New(opts)
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		f(l)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v, want context.Canceled", err)
		}
	})
}

var web = Key{Namespace: "default", Name: "web"}

func TestErrorsBackOff(t *testing.T) {
	var at []time.Duration
	var start time.Time
	opts := Options{MaxBackoff: 30 * time.Millisecond, Reconcile: func(context.Context, Key) (Outcome, error) {
		at = append(at, time.Since(start))
		if len(at) == 6 {
			return Done(), nil
		}
		return Outcome{}, errors.New("refused")
	}}
	turn(t, opts, func(l *Loop) {
		start = time.Now()
		l.Look(web)
		time.Sleep(time.Minute)
		if gaps := l.Gaps(); len(gaps) != 0 {
			t.Errorf("gaps are %v after success", gaps)
		}
		l.Look(web)
		synctest.Wait()
	})
	want := []time.Duration{0, 5, 15, 35, 65, 95, 60_000}
	if len(at) != len(want) {
		t.Fatalf("looked at %v, want ms %v", at, want)
	}
	for i := range want {
		if at[i] != want[i]*time.Millisecond {
			t.Errorf("looked at %v, want ms %v", at, want)
			break
		}
	}
}

func TestOneLookAtAKeyAtOnce(t *testing.T) {
	var mu sync.Mutex
	busy, looks := map[Key]bool{}, map[Key]int{}
	opts := Options{Workers: 8, Reconcile: func(_ context.Context, key Key) (Outcome, error) {
		mu.Lock()
		if busy[key] {
			t.Errorf("%v is looked at by two workers", key)
		}
		busy[key] = true
		looks[key]++
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		busy[key] = false
		mu.Unlock()
		return Done(), nil
	}}
	other := Key{Name: "other"}
	turn(t, opts, func(l *Loop) {
		for range 20 { // while a look is under way, all further ones become one
			l.Look(web)
			l.Look(other)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
	})
	if looks[web] != 2 || looks[other] != 2 {
		t.Errorf("looks are %v, want 2 each", looks)
	}
}

func TestActingLooksAgainAtOnce(t *testing.T) {
	steps := 0
	var took time.Duration
	opts := Options{Reconcile: func(context.Context, Key) (Outcome, error) {
		if steps++; steps < 5 {
			return Acted("step %d", steps), nil
		}
		return Done(), nil
	}}
	turn(t, opts, func(l *Loop) {
		start := time.Now()
		l.Look(web)
		synctest.Wait()
		took = time.Since(start)
	})
	if steps != 5 || took != 0 {
		t.Errorf("%d looks took %v, want 5 in no time", steps, took)
	}
}

func TestAfterLooksAgainInTime(t *testing.T) {
	var at []time.Duration
	var start time.Time
	opts := Options{Reconcile: func(context.Context, Key) (Outcome, error) {
		at = append(at, time.Since(start))
		if len(at) < 3 {
			return WaitFor("", "not yet").In(10 * time.Second), nil
		}
		return Done(), nil
	}}
	turn(t, opts, func(l *Loop) {
		start = time.Now()
		l.Look(web)
		time.Sleep(time.Hour)
	})
	if len(at) != 3 || at[1] != 10*time.Second || at[2] != 20*time.Second {
		t.Errorf("looked at %v", at)
	}
}

func TestGapsKeepTheirAge(t *testing.T) {
	reason := "no node fits"
	opts := Options{Name: "placement", Reconcile: func(context.Context, Key) (Outcome, error) {
		return WaitFor("Pod default/web", "%s", reason), nil
	}}
	turn(t, opts, func(l *Loop) {
		first := time.Now()
		l.Look(web)
		time.Sleep(time.Minute)
		l.Look(web)
		synctest.Wait()
		if !l.Open(web) || l.Open(Key{Name: "other"}) {
			t.Error("the gap is not open, or another is")
		}
		gaps := l.Gaps()
		want := Gap{Loop: "placement", Key: web, State: Waiting, On: "Pod default/web", Reason: reason, Since: first}
		if len(gaps) != 1 || gaps[0] != want {
			t.Errorf("gaps are %+v, want %+v", gaps, want)
		}
		reason = "another"
		l.Look(web)
		synctest.Wait()
		if gaps := l.Gaps(); len(gaps) != 1 || gaps[0].Since != first.Add(time.Minute) {
			t.Errorf("gaps are %+v with a new reason", gaps)
		}
	})
}

func TestEndWaitsForLooksInProgress(t *testing.T) {
	ended := 0
	opts := Options{Workers: 1, Reconcile: func(ctx context.Context, _ Key) (Outcome, error) {
		<-ctx.Done()
		time.Sleep(time.Second) // winds up
		ended++
		return Outcome{}, ctx.Err()
	}}
	turn(t, opts, func(l *Loop) {
		l.Look(web)
		l.Look(Key{Name: "queued"})
		synctest.Wait()
	})
	if ended != 1 {
		t.Errorf("%d looks ended, want the one in progress", ended)
	}
}

func TestObserverHearsEachOutcome(t *testing.T) {
	var heard []State
	looks := 0
	opts := Options{
		Reconcile: func(context.Context, Key) (Outcome, error) {
			switch looks++; looks {
			case 1:
				return Outcome{}, errors.New("refused")
			case 2:
				return Acted("made it"), nil
			}
			return DoneUntil(0), nil
		},
		Observer: func(_ Key, o Outcome, err error, _ time.Duration) {
			if err != nil {
				o.State = Failing
			}
			heard = append(heard, o.State)
		},
	}
	turn(t, opts, func(l *Loop) {
		l.Look(web)
		time.Sleep(time.Minute)
	})
	if len(heard) != 3 || heard[0] != Failing || heard[1] != Acting || heard[2] != Converged {
		t.Errorf("heard %v", heard)
	}
}
