// Package scheduling lets you write a scheduler of your own: with plugins that
// filter and score nodes beside the built-in ones, with profiles that weigh or
// disable those, or both.
//
//	err := scheduling.Run(ctx, config, scheduling.Options{Profiles: []scheduling.Profile{{
//		SchedulerName: "licensed", // what pods name in spec.schedulerName
//		Plugins:       []scheduling.Plugin{licence{}},
//	}}})
//
// Any number of schedulers run beside each other, in this process or others,
// and beside the built-in one: each looks after the pods that name it.
//
// Rights: what system:kube-scheduler may. Run waits for what it may not read.
//
// Concurrency: the plugins of one Run are asked from one goroutine.
//
// Failure: Run tries again what fails. A pod that fits nowhere has the reasons
// in its PodScheduled condition; those of plugins are among them.
package scheduling

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/scheduler/config"
)

// What a scheduler is made of; see each.
type (
	Plugin     = scheduler.Plugin
	Filter     = scheduler.Filter
	Scorer     = scheduler.Scorer
	Node       = scheduler.Node
	Profile    = scheduler.Profile
	ShapePoint = scheduler.ShapePoint
	Extender   = scheduler.Extender

	Args           = scheduler.Args
	ResourceWeight = scheduler.ResourceWeight
)

// Options of a scheduler.
type Options struct {
	// Profiles are the schedulers that pods choose between; none means one
	// named "default-scheduler".
	Profiles  []Profile
	Extenders []Extender
	Logger    *slog.Logger // nil: no log
}

// ReadConfig reads a KubeSchedulerConfiguration. Its profiles may enable the
// plugins given.
func ReadConfig(data []byte, plugins ...Plugin) (Options, error) {
	profiles, extenders, err := config.Read(data, plugins...)
	return Options{Profiles: profiles, Extenders: extenders}, err
}

// Run places pods in the cluster that cfg names until ctx ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	c, err := client.NewRemote(cfg, client.Identity{UserAgent: "setpoint-scheduling"})
	if err != nil {
		return err
	}
	defer c.Close()
	events := client.NewRecorder(client.RecorderOptions{Client: c, Logger: o.Logger}) // each profile is a source of its own
	s, err := scheduler.New(scheduler.Options{Client: c, Profiles: o.Profiles, Extenders: o.Extenders, Logger: o.Logger, Recorder: events})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { events.Run(ctx) })
	return s.Run(ctx)
}
