package pod

import (
	"testing"
	"time"
)

// What follows is about the clock on the wall being set while pods run.

func TestTokensDue(t *testing.T) {
	renew := now.Add(48 * time.Minute)
	for name, c := range map[string]struct {
		renew, now time.Time
		want       bool
	}{
		"fresh":                   {renew, now, false},
		"in use":                  {renew, now.Add(47 * time.Minute), false},
		"old":                     {renew, renew, true},
		"set forward":             {renew, now.Add(24 * time.Hour), true},
		"set back a little":       {renew, now.Add(-10 * time.Second), false},
		"set back":                {renew, now.Add(-time.Hour), true},
		"no tokens, set back":     {time.Time{}, now.Add(-time.Hour), false},
		"no tokens, a long while": {time.Time{}, now.Add(1000 * time.Hour), false},
	} {
		if got := tokensDue(c.renew, now, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBackUntil(t *testing.T) {
	for name, c := range map[string]struct{ finished, left time.Duration }{
		"just now":         {0, 20 * time.Second},
		"a while ago":      {-5 * time.Second, 15 * time.Second},
		"in the future":    {time.Hour, 20 * time.Second}, // the clock was set back
		"long ago":         {-time.Hour, 20*time.Second - time.Hour},
		"a moment from us": {time.Millisecond, 20 * time.Second},
	} {
		if left := backUntil(now.Add(c.finished), now, 20*time.Second).Sub(now); left != c.left {
			t.Errorf("%s: %v are left, want %v", name, left, c.left)
		}
	}
}

// TestNextLooksAtTheWall: timers know nothing of a clock that is set, so
// whoever waits for a time of the wall looks up now and then.
func TestNextLooksAtTheWall(t *testing.T) {
	w := New(&Deps{}, podOf("Always", "a"))
	if at := w.next(Plan{}); !at.IsZero() {
		t.Errorf("waits for nothing, and looks at %v", at)
	}
	w.mounted, w.renew = true, time.Now().Add(time.Hour)
	if in := time.Until(w.next(Plan{})); in > clockEvery {
		t.Errorf("with a token it looks in %v, want %v at the most", in, clockEvery)
	}
	w.renew = time.Now().Add(time.Second)
	if in := time.Until(w.next(Plan{})); in > time.Second {
		t.Errorf("with a token that is due in a second it looks in %v", in)
	}
}
