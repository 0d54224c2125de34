package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// RunEtcd stands in for etcd until ctx ends: it holds the addresses of
// --listen-client-urls and answers health checks there. The API server beside
// it keeps its objects in its own memory, so that nobody asks for more.
func RunEtcd(ctx context.Context, args []string, out, errOut io.Writer) error {
	fs := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	listen := fs.StringSlice("listen-client-urls", []string{"http://localhost:2379"}, "where health checks are answered")
	// unsafe-no-fsync is true of what is never written.
	fs.Bool("unsafe-no-fsync", true, "nothing is written to disk")
	known := []string{"advertise-client-urls", "listen-peer-urls", "data-dir", "name", "initial-advertise-peer-urls",
		"initial-cluster", "initial-cluster-state", "initial-cluster-token", "log-level", "logger", "max-txn-ops", "quota-backend-bytes"}
	if err := parse(fs, known, args, out, errOut); err != nil {
		if errors.Is(err, errHelp) {
			return nil
		}
		return err
	}
	ctx, cancel := whileParent(ctx, os.Getppid)
	defer cancel()
	srv := &http.Server{Handler: etcdHealth(), ReadHeaderTimeout: 30 * time.Second}
	defer srv.Close()
	failed := make(chan error, len(*listen))
	for _, at := range *listen {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" || u.Port() == "" {
			return fmt.Errorf("--listen-client-urls %q: must be http://HOST:PORT", at)
		}
		l, err := net.Listen("tcp", u.Host)
		if err != nil {
			return err
		}
		go func() { failed <- srv.Serve(l) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// etcdHealth answers as a healthy etcd of one member does.
// https://etcd.io/docs/v3.6/op-guide/monitoring/
func etcdHealth() http.Handler {
	mux := http.NewServeMux()
	say := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	mux.HandleFunc("GET /health", say(`{"health":"true","reason":""}`))
	mux.HandleFunc("GET /livez", say("ok\n"))
	mux.HandleFunc("GET /readyz", say("ok\n"))
	return mux
}
