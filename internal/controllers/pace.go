package controllers

import (
	"sync"
	"time"

	"github.com/setpoint-project/setpoint/loop"
)

// Pace spaces out the looks at keys that are dear to look at: in the time
// between two looks more happens, and is dealt with at once.
//
// Safe for use from many goroutines.
type Pace struct {
	Few  int           // of this size and below a key is looked at at once
	Each time.Duration // the pause for each unit of size above that
	Most time.Duration // the longest pause

	mu    sync.Mutex
	sizes map[loop.Key]int // at the last look, of those above few; guarded by mu
}

// Note remembers the size of key; 0 forgets it.
func (p *Pace) Note(key loop.Key, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size < p.Few {
		delete(p.sizes, key)
		return
	}
	if p.sizes == nil {
		p.sizes = map[loop.Key]int{}
	}
	p.sizes[key] = size
}

// Look makes l look at key, now or after a pause.
func (p *Pace) Look(l *loop.Loop, key loop.Key) {
	p.mu.Lock()
	size := p.sizes[key]
	p.mu.Unlock()
	if size == 0 {
		l.Look(key)
		return
	}
	l.LookAfter(key, min(p.Most, time.Duration(size)*p.Each))
}
