// Package setpoint runs a whole Kubernetes-compatible cluster in your process:
// a real cluster per test, at once, or one inside your own program.
//
//	c, err := setpoint.Start(ctx, setpoint.Options{SimulatedNodes: 3})
//	if err != nil { … }
//	defer c.Stop()
//	clientset, err := kubernetes.NewForConfig(c.Config())
//
// The API is served over TLS on loopback, so every client works unmodified:
// Kubeconfig is a file for kubectl and its like. Pods run on simulated nodes:
// they go through their phases without containers.
//
// Concurrency: any number of clusters run in one process; the methods of a
// Cluster may be called from many goroutines.
//
// Failure: a cluster that fails by itself closes Done; Err says why.
package setpoint

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/cluster"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
)

// Options of a cluster. The zero value is a cluster without nodes that is gone
// when it stops.
type Options struct {
	// DataDir keeps the cluster. Empty: a temporary folder for certificates,
	// objects in memory only, and all of it gone after Stop.
	DataDir string
	// SimulatedNodes is how many nodes there are, 0 to 20,000.
	SimulatedNodes int
	// Listen is HOST:PORT of the API server; empty: a free port on loopback.
	Listen string
	Logger *slog.Logger // nil: no log
}

// Cluster is a running cluster.
type Cluster struct {
	config     *rest.Config
	kubeconfig string

	stop context.CancelFunc
	done chan struct{}
	once sync.Once
	temp string // folder to remove, or ""
	err  error  // why it ended; set before done is closed
}

// Start starts a cluster and returns once it answers. It runs until Stop, or
// until ctx ends.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{done: make(chan struct{})}
	opts := cluster.Options{DataDir: o.DataDir, Listen: o.Listen, Logger: o.Logger, Nodes: fmt.Sprintf("sim=%d", o.SimulatedNodes)}
	if o.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	if o.DataDir == "" {
		dir, err := os.MkdirTemp("", "setpoint-")
		if err != nil {
			return nil, err
		}
		c.temp, opts.DataDir, opts.InMemory = dir, dir, true
	}
	if err := opts.Validate(); err != nil {
		c.forget()
		return nil, err
	}
	ready := make(chan cluster.Info, 1)
	opts.Ready = func(i cluster.Info) { ready <- i }
	ctx, c.stop = context.WithCancel(ctx)
	go func() {
		c.err = cluster.Up(ctx, opts)
		close(c.done)
	}()
	select {
	case info := <-ready:
		c.kubeconfig = info.Kubeconfig
		cfg, err := kubeconfig.Load(info.Kubeconfig)
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.config = cfg
		return c, nil
	case <-c.done:
		c.stop()
		c.forget()
		if c.err == nil {
			c.err = context.Cause(ctx)
		}
		return nil, c.err
	}
}

// Config is how client-go reaches the cluster as its administrator. The copy
// is the caller's.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the file by which kubectl and other clients do.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Done is closed when the cluster has ended.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err says why the cluster ended by itself; nil while it runs and after Stop.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stop ends the cluster and returns when all of it has stopped. It may be
// called more than once.
func (c *Cluster) Stop() error {
	c.stop()
	<-c.done
	c.once.Do(c.forget)
	return c.err
}

func (c *Cluster) forget() {
	if c.temp != "" {
		os.RemoveAll(c.temp)
	}
}
