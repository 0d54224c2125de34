package metricsserver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/nodestats"
)

const (
	// fresh is how old an answer may be. It is less than the period of the
	// HorizontalPodAutoscaler, so that each of its looks sees something new.
	fresh = 10 * time.Second
	// longest and shortest bound the time over which usage is taken.
	longest  = 90 * time.Second
	shortest = time.Second
	// patience is how long a kubelet may take to answer; one that failed is
	// not asked again for a while.
	patience = 5 * time.Second
	// atOnce is how many kubelets are asked at the same time.
	atOnce = 32
)

// pair is two samples of one node.
type pair struct{ before, now *nodestats.Sample }

// sampler keeps the last two samples of each node that somebody asked for.
//
//	asked, newer than fresh ------------------------------> the same again
//	asked, last one younger than longest: scrape ---------> since the last one
//	asked, nothing of use: scrape, wait shortest, scrape -> since a second ago
type sampler struct {
	scrape func(context.Context, *corev1.Node) ([]byte, error)
	log    *slog.Logger
	turns  chan struct{}

	mu       sync.Mutex
	nodes    map[string]*history // guarded by mu
	sweeping bool                // guarded by mu: old histories will be thrown away
}

// history is of one node. Whoever scrapes holds its one turn: who asks
// meanwhile wants the same.
type history struct {
	turn   chan struct{} // the fields below are guarded by it
	pair   pair
	at     time.Time // of pair.now
	failed time.Time
	asked  time.Time // guarded by the sampler's mu
}

func newSampler(scrape func(context.Context, *corev1.Node) ([]byte, error), log *slog.Logger) *sampler {
	return &sampler{scrape: scrape, log: log, turns: make(chan struct{}, atOnce), nodes: map[string]*history{}}
}

// want returns two samples of each node that has them.
func (s *sampler) want(ctx context.Context, nodes []*corev1.Node) map[string]pair {
	out := make(map[string]pair, len(nodes))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range nodes {
		h := s.history(n.Name)
		wg.Go(func() {
			if p, ok := s.of(ctx, h, n); ok {
				mu.Lock()
				out[n.Name] = p
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// history finds a node's, or begins it.
func (s *sampler) history(name string) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.nodes[name]
	if h == nil {
		h = &history{turn: make(chan struct{}, 1)}
		s.nodes[name] = h
	}
	h.asked = time.Now()
	if !s.sweeping {
		s.sweeping = true
		time.AfterFunc(longest, s.sweep)
	}
	return h
}

// sweep forgets the nodes that nobody has asked for in long: a large cluster's
// samples are large. It ends with the last of them.
func (s *sampler) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.nodes {
		if time.Since(h.asked) >= longest {
			delete(s.nodes, name)
		}
	}
	if s.sweeping = len(s.nodes) > 0; s.sweeping {
		time.AfterFunc(longest, s.sweep)
	}
}

func (s *sampler) of(ctx context.Context, h *history, n *corev1.Node) (pair, bool) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return pair{}, false
	}
	now := time.Now()
	switch {
	case h.pair.before != nil && now.Sub(h.at) < fresh:
		return h.pair, true
	case !h.failed.IsZero() && now.Sub(h.failed) < fresh:
		return pair{}, false
	}
	if h.pair.now == nil || now.Sub(h.at) > longest {
		h.pair = pair{}
		if !s.take(ctx, h, n) {
			return pair{}, false
		}
	}
	if wait := shortest - time.Since(h.at); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return pair{}, false
		}
	}
	ok := s.take(ctx, h, n)
	return h.pair, ok
}

// take scrapes a node once. Whoever waits for the same is not to suffer when
// the first who asked goes away.
func (s *sampler) take(ctx context.Context, h *history, n *corev1.Node) bool {
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	text, err := s.scrape(ctx, n)
	var sample *nodestats.Sample
	if err == nil {
		sample, err = nodestats.Read(text, time.Now())
	}
	if err != nil {
		s.log.Debug("a node does not tell what it uses", "node", n.Name, "error", err)
		h.failed = time.Now()
		return false
	}
	h.pair, h.at, h.failed = pair{before: h.pair.now, now: sample}, time.Now(), time.Time{}
	return true
}
