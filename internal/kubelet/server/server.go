// Package server answers the API server, and people with its rights, over
// HTTPS: logs, exec, attach, port-forward, and what the node's containers use.
//
//	/healthz /pods /runningpods /containerLogs/NS/POD/CONTAINER
//	/exec/NS/POD[/UID]/CONTAINER /attach/... /run/... /portForward/NS/POD[/UID]
//	/stats/summary /metrics/resource /metrics/cadvisor
//
// Streams are the runtime's: it answers with a loopback address of this
// network namespace, to which the connection is passed on, whatever it is
// upgraded to (SPDY/3.1 or WebSocket).
//
// Concurrency: as net/http's. Failure: an error is a plain text and a status
// code, which the API server passes on.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/nodestats"
)

// DefaultClient is the common name by which upstream's tools sign the API
// server's certificate towards kubelets.
const DefaultClient = "kube-apiserver-kubelet-client"

const masters = "system:masters"

// Options of a Server.
type Options struct {
	Addrs []string // each host:port
	// Certificate is the server's own.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ClientCA    *x509.CertPool
	// Clients are the common names that may ask; empty means DefaultClient.
	// Members of system:masters always may.
	Clients []string
	// Client asks the API server who others are and what they may (access.go);
	// nil: nobody else may ask anything.
	Client  client.Interface
	Runtime cri.Runtime
	// Stats measures what runs here.
	Stats   nodestats.Collect
	Pods    client.View
	Owner   string
	LogsDir string
	Node    string
	Logger  *slog.Logger
}

// Server answers.
type Server struct {
	opts   Options
	http   *http.Server
	access *access
}

// New makes a Server.
func New(o Options) (*Server, error) {
	if o.ClientCA == nil {
		return nil, errors.New("kubelet server: ClientCA is nil: anyone could run commands in containers")
	}
	if len(o.Clients) == 0 {
		o.Clients = []string{DefaultClient}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, access: newAccess(o.Client, o.Node)}
	s.http = &http.Server{
		Handler: s.Handler(),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate,
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: o.ClientCA,
			NextProtos: []string{"http/1.1"}, // streams take connections over
		},
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Handler is the server's, with authentication.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /runningpods/", s.pods)
	mux.HandleFunc("GET /containerLogs/{ns}/{pod}/{container}", s.logs)
	for _, form := range []string{"/{ns}/{pod}/{container}", "/{ns}/{pod}/{uid}/{container}"} {
		mux.HandleFunc("/exec"+form, s.exec)
		mux.HandleFunc("/attach"+form, s.attach)
		mux.HandleFunc("POST /run"+form, s.run)
	}
	mux.HandleFunc("/portForward/{ns}/{pod}", s.portForward)
	mux.HandleFunc("/portForward/{ns}/{pod}/{uid}", s.portForward)
	stats := nodestats.Handler(s.opts.Stats)
	mux.Handle("GET /stats/", stats)
	mux.Handle("GET /metrics/", stats)
	outer := http.NewServeMux()
	outer.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	outer.Handle("/", s.admitted(mux))
	return outer
}

// Run answers at every address until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	var serving sync.WaitGroup
	for _, addr := range s.opts.Addrs {
		serving.Go(func() {
			l, err := listen(ctx, addr)
			if err == nil {
				err = s.http.ServeTLS(l, "", "")
			}
			cancel(err) // of those after the first nobody hears: they end with it
		})
	}
	serving.Wait()
	return context.Cause(ctx)
}

// listen waits for its address: that of the node's bridge comes up with the
// network, and a kubelet that was killed frees the port a little later.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	for tries := 0; ; tries++ {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err == nil || tries >= 100 {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{}}
	for _, o := range s.opts.Pods.List("") {
		list.Items = append(list.Items, *o.(*v1.Pod))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}
