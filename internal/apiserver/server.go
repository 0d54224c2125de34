package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/setpoint-project/setpoint/internal/apiserver/apply"
	"github.com/setpoint-project/setpoint/internal/apiserver/health"
	"github.com/setpoint-project/setpoint/internal/store"
)

// Server is the API server. See the package comment.
type Server struct {
	cfg   Config
	store store.Store
	log   *slog.Logger
	hub   *hub

	current atomic.Pointer[catalog]

	reinvoked int // how many of the admission plugins may be asked twice

	managers *apply.Managers
	metrics  *metrics
	stopping chan struct{} // closed when Run's context ends
	stopOnce sync.Once

	mu    sync.Mutex
	views map[viewKey]*view // guarded by mu

	foreign foreign
}

// New makes a server of cfg. Run must run for watches and views to work.
func New(cfg Config) (*Server, error) {
	if cfg.Store == nil {
		return nil, errors.New("apiserver: no store")
	}
	s := &Server{
		cfg: cfg, store: cfg.Store, log: cfg.Logger,
		reinvoked: reinvoked(cfg.Admission),
		managers:  apply.New(), stopping: make(chan struct{}),
		views: map[viewKey]*view{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	c, err := newCatalog(cfg.Kinds)
	if err != nil {
		return nil, err
	}
	s.current.Store(c)
	s.hub = newHub(s)
	s.metrics = newMetrics(cfg.Metrics)
	if cfg.Metrics != nil && cfg.Fairness != nil {
		cfg.Metrics.MustRegister(cfg.Fairness)
	}
	return s, nil
}

// Run serves watches and views until ctx ends; then it ends every watch in
// good order and returns once the hub and all views have stopped.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.sweep(ctx) })
	s.followFlowControl()
	err := s.hub.run(ctx)
	s.stopOnce.Do(func() { close(s.stopping) })
	cancel()
	s.foreign.end()
	s.mu.Lock()
	views := s.views
	s.views = map[viewKey]*view{}
	s.mu.Unlock()
	for _, v := range views {
		v.stop()
	}
	wg.Wait()
	if s.cfg.CheckImmutable {
		s.checkAll()
	}
	return err
}

// checkAll looks at every shared object a last time.
func (s *Server) checkAll() {
	got, err := s.store.Range(context.Background(), store.Range{Prefix: "/registry/"})
	if err != nil {
		return
	}
	for _, rec := range got.Records {
		checkRecord(rec)
	}
}

// checkRecord looks at the shared object of a record, if there is one.
func checkRecord(rec *store.Record) {
	if rec == nil {
		return
	}
	if p := rec.Decoded.Load(); p != nil {
		(*p).(*entry).check(rec)
	}
}

// Ready is nil once watches and views can be served.
func (s *Server) Ready() error {
	select {
	case <-s.stopping:
		return errHubStopped
	case <-s.hub.started:
		return nil
	default:
		return fmt.Errorf("apiserver: %w", health.ErrStarting)
	}
}
