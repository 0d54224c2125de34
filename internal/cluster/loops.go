package cluster

import (
	"log/slog"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/endpoints"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
	"github.com/setpoint-project/setpoint/internal/controllers/eventttl"
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
	"github.com/setpoint-project/setpoint/internal/controllers/namespace"
	"github.com/setpoint-project/setpoint/internal/controllers/nodeipam"
	"github.com/setpoint-project/setpoint/internal/controllers/nodelifecycle"
	"github.com/setpoint-project/setpoint/internal/controllers/podgc"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
	"github.com/setpoint-project/setpoint/internal/controllers/rootca"
	"github.com/setpoint-project/setpoint/internal/controllers/serviceaccount"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// connect makes a client that carries an identity: in process or remote.
type connect func(client.Identity) (client.Interface, error)

var (
	controllersIdentity = client.Identity{User: pki.ControllerManagerUser, UserAgent: "setpoint-controllers"}
	schedulerIdentity   = client.Identity{User: pki.SchedulerUser, UserAgent: "setpoint-scheduler"}
)

// startLoops wires and runs every loop but the scheduler. Adding a loop is one
// line.
func startLoops(p *parts, dial connect, ranges Ranges, caPEM []byte, gaps *gapList, log *slog.Logger) error {
	c, err := dial(controllersIdentity)
	if err != nil {
		return err
	}
	// Each loop's events name the loop as their source.
	o := func(name string) controllers.Options {
		events := client.NewRecorder(client.RecorderOptions{Client: c, Component: name, Logger: log})
		p.run("events", events.Run)
		return controllers.Options{Client: c, Logger: log, Events: events}
	}
	ipam, err := nodeipam.New(o("node-ipam-controller"), ranges.Cluster)
	if err != nil {
		return err
	}
	for _, l := range []controllers.Controller{
		deployment.New(o("deployment-controller")),
		endpoints.New(o("endpoint-controller")),
		endpointslice.New(o("endpoint-slice-controller")),
		eventttl.New(o("event-ttl-controller"), eventttl.DefaultTTL),
		garbage.New(o("garbage-collector-controller")),
		ipam,
		namespace.New(o("namespace-controller")),
		nodelifecycle.New(o("node-controller")),
		podgc.New(o("pod-garbage-collector-controller")),
		replicaset.New(o("replicaset-controller")),
		rootca.New(o("root-ca-certificate-publisher-controller"), caPEM),
		serviceaccount.New(o("serviceaccount-controller")),
	} {
		gaps.add(l)
		p.run(l.Name(), l.Run)
	}
	return nil
}

func startScheduler(p *parts, dial connect, gaps *gapList, log *slog.Logger) error {
	c, err := dial(schedulerIdentity)
	if err != nil {
		return err
	}
	events := client.NewRecorder(client.RecorderOptions{Client: c, Component: "default-scheduler", Logger: log})
	p.run("events", events.Run)
	s := scheduler.New(scheduler.Options{Client: c, Logger: log, Recorder: events})
	gaps.add(s)
	p.run("scheduler", s.Run)
	return nil
}
