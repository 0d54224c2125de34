package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// config is what the environment decides.
type config struct {
	// Listen is the address to serve on (LISTEN, default :8080).
	Listen string
	// Pod names this server in its answers (POD_NAME, default the host name).
	Pod string
	// Version is the version it claims to be (DEMO_VERSION, default dev). It
	// comes from the image, so that two images can share one program.
	Version string
	// Drain is how long it serves on after being told to end (DRAIN, default
	// 3s). It must outlast the spread of the news to every node and stay well
	// below the pod's grace period.
	Drain time.Duration
}

func configFromEnv(getenv func(string) string, hostname func() (string, error)) (config, error) {
	c := config{Listen: ":8080", Pod: getenv("POD_NAME"), Version: "dev", Drain: 3 * time.Second}
	if v := getenv("LISTEN"); v != "" {
		c.Listen = v
	}
	if v := getenv("DEMO_VERSION"); v != "" {
		c.Version = v
	}
	if v := getenv("DRAIN"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return c, fmt.Errorf("DRAIN is %q: want a duration such as 3s", v)
		}
		c.Drain = d
	}
	if c.Pod == "" {
		name, err := hostname()
		if err != nil {
			return c, fmt.Errorf("POD_NAME is empty and the host has no name: %w", err)
		}
		c.Pod = name
	}
	return c, nil
}

// run serves until ctx ends, drains, and returns when the last answer is out.
func run(ctx context.Context, c config, log *slog.Logger) error {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	log.Info("serving", "address", listener.Addr().String(), "pod", c.Pod, "version", c.Version)
	return serve(ctx, listener, c, log)
}

func serve(ctx context.Context, listener net.Listener, c config, log *slog.Logger) error {
	var draining atomic.Bool
	server := &http.Server{Handler: handler(c, &draining), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	log.Info("draining", "for", c.Drain)
	draining.Store(true)
	// Answers now carry "Connection: close", which moves callers with open
	// connections to another pod at a moment of their own choosing.
	server.SetKeepAlivesEnabled(false)
	time.Sleep(c.Drain)

	if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Info("drained")
	return nil
}

func handler(c config, draining *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "demo %s from %s\n", c.Version, c.Pod)
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, c.Version)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
