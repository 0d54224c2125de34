// Command demo is the web server in the image setpoint.local/demo.
//
// Every answer names the pod and the version that gave it, so that a caller
// sees a Service spread over pods and a rollout go by. It leaves a Service
// without losing a request: after SIGTERM it goes on serving for the drain
// time, in which the nodes learn that it is leaving, asks callers to take new
// connections, and then ends once the last answer is out.
//
//	GET /          demo <version> from <pod>
//	GET /version   <version>
//	GET /healthz   200 for as long as it serves
//	GET /readyz    200, and 503 while it drains
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	config, err := configFromEnv(os.Getenv, os.Hostname)
	if err != nil {
		log.Error("cannot start", "error", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, config, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}
