package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/store"
)

// Server is the API server. See the package comment.
type Server struct {
	cfg   Config
	store store.Store
	log   *slog.Logger
	hub   *hub

	resources  []*resource
	byGVR      map[schema.GroupVersionResource]*served
	byPath     map[string]*served // "apps/v1/deployments"
	byPrefix   map[string]*resource
	namespaces *resource // nil when not served
	pods       *resource // nil when not served
	byName     map[schema.GroupResource]*resource

	metrics  *metrics
	stopping chan struct{} // closed when Run's context ends
	stopOnce sync.Once

	mu    sync.Mutex
	views map[viewKey]*view // guarded by mu
}

// New makes a server of cfg. Run must run for watches and views to work.
func New(cfg Config) (*Server, error) {
	if cfg.Store == nil {
		return nil, errors.New("apiserver: no store")
	}
	s := &Server{
		cfg: cfg, store: cfg.Store, log: cfg.Logger,
		byGVR:    map[schema.GroupVersionResource]*served{},
		byPath:   map[string]*served{},
		byPrefix: map[string]*resource{},
		byName:   map[schema.GroupResource]*resource{},
		stopping: make(chan struct{}),
		views:    map[viewKey]*view{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, k := range cfg.Kinds {
		if err := s.add(k); err != nil {
			return nil, err
		}
	}
	s.hub = newHub(s)
	s.metrics = newMetrics(cfg.Metrics)
	return s, nil
}

func (s *Server) add(k *kinds.Kind) error {
	if len(k.Versions) == 0 || k.Hub < 0 || k.Hub >= len(k.Versions) {
		return fmt.Errorf("apiserver: kind %s has no hub version", k.Kind)
	}
	res := newResource(k)
	if res.isNamespaces {
		s.namespaces = res
	}
	if res.isPods {
		s.pods = res
	}
	for _, sv := range res.served {
		if s.byGVR[sv.gvr] != nil {
			return fmt.Errorf("apiserver: %s is served twice", sv.gvr)
		}
		s.byGVR[sv.gvr] = sv
		s.byPath[sv.gvr.Group+"/"+sv.gvr.Version+"/"+sv.gvr.Resource] = sv
	}
	if k.StoragePrefix != "" {
		if s.byPrefix[k.StoragePrefix] != nil {
			return fmt.Errorf("apiserver: two kinds are stored at %s", k.StoragePrefix)
		}
		s.byPrefix[k.StoragePrefix] = res
	}
	s.resources = append(s.resources, res)
	s.byName[res.gr] = res
	return nil
}

// Run serves watches and views until ctx ends; then it ends every watch in
// good order and returns once the hub and all views have stopped.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.sweep(ctx) })
	err := s.hub.run(ctx)
	s.stopOnce.Do(func() { close(s.stopping) })
	cancel()
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
		if p := rec.Decoded.Load(); p != nil {
			(*p).(*entry).check(rec)
		}
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
		return errors.New("apiserver: does not run yet")
	}
}
