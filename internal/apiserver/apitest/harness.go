// Package apitest gives tests a running API server: every kind, discovery, a
// store in memory, clients in process and, on request, TLS with HTTP/2 on
// loopback.
//
//	h := apitest.New(t, apitest.Options{})
//	c := h.Client("system:admin")
//
// Without Options.HTTP it touches no network and works inside a testing/synctest
// bubble: make it in the bubble, with the bubble's t. It stops by t.Cleanup.
package apitest

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/apiserver/crd"
	"github.com/setpoint-project/setpoint/internal/apiserver/discovery"
	"github.com/setpoint-project/setpoint/internal/apiserver/fairness"
	"github.com/setpoint-project/setpoint/internal/apiserver/gather"
	"github.com/setpoint-project/setpoint/internal/apiserver/h2"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/all"
	"github.com/setpoint-project/setpoint/internal/store"
	"github.com/setpoint-project/setpoint/internal/store/local"
)

// Options of a Harness. The zero value will do.
type Options struct {
	Kinds          []*kinds.Kind // nil: every kind
	Store          store.Store   // nil: in memory
	Namespaces     []string      // made at the start; nil: default and kube-system
	Authenticators []authn.Authenticator
	Authorizer     authz.Authorizer // nil: everybody may do everything
	Admission      []admission.Plugin
	Fairness       *fairness.Limiter
	Subresources   map[string]apiserver.SubresourceHandler
	Computed       map[string]apiserver.Computed
	Paths          map[string]http.Handler // besides discovery
	Extension      func(group, version string) http.Handler
	Foreign        func() []client.ResourceInfo // what Extension serves
	RequestLog     func(apiserver.RequestRecord)
	// HTTP serves on loopback as well.
	HTTP bool
	// Mutable leaves out the check that shared objects stay as they are.
	Mutable bool
}

// Harness is a running API server.
type Harness struct {
	Server *apiserver.Server
	Store  store.Store
	HTTP   *httptest.Server // nil without Options.HTTP

	cancel context.CancelFunc
	done   chan error
}

// New starts a server and waits until it is ready.
func New(t testing.TB, o Options) *Harness {
	t.Helper()
	if o.Kinds == nil {
		o.Kinds = all.Kinds()
	}
	if o.Store == nil {
		st, err := local.Open(local.Options{})
		if err != nil {
			t.Fatalf("open the store: %v", err)
		}
		t.Cleanup(func() { st.Close() })
		o.Store = st
	}
	h := &Harness{Store: o.Store, done: make(chan error, 1)}
	served := func() []*kinds.Kind { return h.Server.Kinds() }
	changes := func() uint64 { return h.Server.CatalogVersion() }
	found := discovery.New(served, changes)
	paths := map[string]http.Handler{"/api": found, "/api/": found, "/apis": found, "/apis/": found}
	maps.Copy(paths, o.Paths)
	s, err := apiserver.New(apiserver.Config{
		Store: o.Store, Kinds: o.Kinds, Authenticators: o.Authenticators, Authorizer: o.Authorizer,
		Admission: o.Admission, Fairness: o.Fairness, Subresources: o.Subresources, Paths: paths, RequestLog: o.RequestLog,
		Extension: o.Extension, Foreign: o.Foreign, Computed: o.Computed,
		CheckImmutable: !o.Mutable,
	})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	h.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() { h.done <- h.run(ctx, o.Kinds) }()
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Errorf("the server stopped with: %v", err)
		}
	})
	if o.Namespaces == nil {
		o.Namespaces = []string{"default", "kube-system"}
	}
	for _, name := range o.Namespaces {
		h.Namespace(t, name)
	}
	if o.HTTP {
		h.HTTP = httptest.NewUnstartedServer(s)
		h.HTTP.EnableHTTP2 = true
		h.HTTP.Listener = gather.Listener(h.HTTP.Listener)
		h2.Configure(h.HTTP.Config)
		h.HTTP.StartTLS()
		t.Cleanup(h.HTTP.Close)
	}
	return h
}

// run serves until ctx ends: built-in kinds and, where definitions are among
// them, custom ones.
func (h *Harness) run(ctx context.Context, built []*kinds.Kind) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if slices.ContainsFunc(built, func(k *kinds.Kind) bool { return k.Resource == crd.Definitions.GroupResource() }) {
		definitions := crd.New(crd.Config{Client: h.Client("apitest"), Registry: h.Server})
		defer definitions.Loop().Stop() // also when it never came to run
		if err := definitions.Load(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		wg.Go(func() { definitions.Run(ctx) })
	}
	return h.Server.Run(ctx)
}

// Stop ends the server and returns what Run returned. It may be called twice.
func (h *Harness) Stop() error {
	h.cancel()
	err := <-h.done
	h.done <- nil
	return err
}

// Client is a client in process. It is in system:masters.
func (h *Harness) Client(user string) client.Interface {
	return h.Server.Client(client.Identity{User: user, Groups: []string{"system:masters", "system:authenticated"}, UserAgent: "apitest"})
}

// Namespace makes a namespace, if it is not there.
func (h *Harness) Namespace(t testing.TB, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := h.Client("apitest").Create(context.Background(), corev1.SchemeGroupVersion.WithResource("namespaces"), ns)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create namespace %s: %v", name, err)
	}
}

// Config is how client-go reaches the server (Options.HTTP).
func (h *Harness) Config() *rest.Config {
	return &rest.Config{
		Host: h.HTTP.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: caOf(h.HTTP)},
	}
}
