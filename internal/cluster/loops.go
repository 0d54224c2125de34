package cluster

import (
	"log/slog"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/attachdetach"
	"github.com/setpoint-project/setpoint/internal/controllers/bootstraptokencleaning"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/approving"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/cleaning"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/trustbundle"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterinfo"
	"github.com/setpoint-project/setpoint/internal/controllers/clusterroleaggregation"
	"github.com/setpoint-project/setpoint/internal/controllers/cronjob"
	"github.com/setpoint-project/setpoint/internal/controllers/daemonset"
	"github.com/setpoint-project/setpoint/internal/controllers/deployment"
	"github.com/setpoint-project/setpoint/internal/controllers/devicetainteviction"
	"github.com/setpoint-project/setpoint/internal/controllers/disruption"
	"github.com/setpoint-project/setpoint/internal/controllers/endpoints"
	"github.com/setpoint-project/setpoint/internal/controllers/endpointslice"
	"github.com/setpoint-project/setpoint/internal/controllers/ephemeralvolume"
	"github.com/setpoint-project/setpoint/internal/controllers/eventttl"
	"github.com/setpoint-project/setpoint/internal/controllers/garbage"
	"github.com/setpoint-project/setpoint/internal/controllers/horizontalpodautoscaler"
	"github.com/setpoint-project/setpoint/internal/controllers/job"
	"github.com/setpoint-project/setpoint/internal/controllers/legacytokens"
	"github.com/setpoint-project/setpoint/internal/controllers/localpath"
	"github.com/setpoint-project/setpoint/internal/controllers/namespace"
	"github.com/setpoint-project/setpoint/internal/controllers/nodeipam"
	"github.com/setpoint-project/setpoint/internal/controllers/nodelifecycle"
	"github.com/setpoint-project/setpoint/internal/controllers/nodettl"
	"github.com/setpoint-project/setpoint/internal/controllers/persistentvolume"
	"github.com/setpoint-project/setpoint/internal/controllers/podgc"
	"github.com/setpoint-project/setpoint/internal/controllers/policystatus"
	"github.com/setpoint-project/setpoint/internal/controllers/pvcprotection"
	"github.com/setpoint-project/setpoint/internal/controllers/pvprotection"
	"github.com/setpoint-project/setpoint/internal/controllers/replicaset"
	"github.com/setpoint-project/setpoint/internal/controllers/replicationcontroller"
	"github.com/setpoint-project/setpoint/internal/controllers/resourceclaim"
	"github.com/setpoint-project/setpoint/internal/controllers/resourcequota"
	"github.com/setpoint-project/setpoint/internal/controllers/rootca"
	"github.com/setpoint-project/setpoint/internal/controllers/serviceaccount"
	"github.com/setpoint-project/setpoint/internal/controllers/statefulset"
	"github.com/setpoint-project/setpoint/internal/controllers/storagemigration"
	"github.com/setpoint-project/setpoint/internal/controllers/ttlafterfinished"
	"github.com/setpoint-project/setpoint/internal/controllers/vacprotection"
	"github.com/setpoint-project/setpoint/internal/controllers/volumeexpand"
	"github.com/setpoint-project/setpoint/internal/pki"
	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// connect makes a client that carries an identity: in process or remote.
type connect func(client.Identity) (client.Interface, error)

var (
	controllersIdentity = client.Identity{User: pki.ControllerManagerUser, UserAgent: "setpoint-controllers"}
	schedulerIdentity   = client.Identity{User: pki.SchedulerUser, UserAgent: "setpoint-scheduler"}
)

// startLoops wires and runs every loop but the scheduler. Adding a loop is one
// line.
func startLoops(p *parts, dial connect, ranges Ranges, caPEM []byte, keys signers, gaps *gapList, log *slog.Logger) error {
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
	ipam, err := nodeipam.New(o("node-ipam-controller"), nodeipam.Config{Cluster: ranges.Cluster, Kept: ranges.Kept, Simulated: simnode.Simulated})
	if err != nil {
		return err
	}
	for _, l := range append(keys.loops(o, caPEM), []controllers.Controller{
		approving.New(o("certificate-controller")),
		attachdetach.New(o("attachdetach-controller")),
		bootstraptokencleaning.New(o("token-cleaner-controller")),
		cleaning.New(o("certificate-controller")),
		cleaning.NewPods(o("certificate-controller")),
		clusterinfo.New(o("bootstrap-signer-controller")),
		clusterroleaggregation.New(o("clusterrole-aggregation-controller")),
		cronjob.New(o("cronjob-controller")),
		daemonset.New(o("daemonset-controller")),
		deployment.New(o("deployment-controller")),
		devicetainteviction.New(o("device-taint-eviction-controller")),
		disruption.New(o("disruption-controller")),
		disruption.NewStale(o("disruption-controller")),
		endpoints.New(o("endpoint-controller")),
		endpointslice.New(o("endpoint-slice-controller")),
		ephemeralvolume.New(o("ephemeral-volume-controller")),
		eventttl.New(o("event-ttl-controller"), eventttl.DefaultTTL),
		garbage.New(o("garbage-collector-controller")),
		horizontalpodautoscaler.New(o("horizontal-pod-autoscaler")),
		ipam,
		job.New(o("job-controller")),
		job.NewOrphans(o("job-controller")),
		legacytokens.New(o("legacy-serviceaccount-token-cleaner-controller"), legacytokens.DefaultPeriod),
		localpath.New(o("local-path-provisioner")),
		namespace.New(o("namespace-controller")),
		nodelifecycle.New(o("node-controller")),
		nodettl.New(o("ttl-controller")),
		persistentvolume.New(o("persistentvolume-controller")),
		podgc.New(o("pod-garbage-collector-controller"), podgc.MostEnded),
		policystatus.New(o("validatingadmissionpolicy-status-controller")),
		pvcprotection.New(o("pvc-protection-controller")),
		pvprotection.New(o("pv-protection-controller")),
		replicaset.New(o("replicaset-controller")),
		replicationcontroller.New(o("replication-controller")),
		resourceclaim.New(o("resource-claim-controller")),
		resourceclaim.NewCleaner(o("resource-claim-controller")),
		resourcequota.New(o("resourcequota-controller")),
		rootca.New(o("root-ca-certificate-publisher-controller"), caPEM),
		serviceaccount.New(o("serviceaccount-controller")),
		statefulset.New(o("statefulset-controller")),
		storagemigration.New(o("storage-version-migrator-controller")),
		trustbundle.New(o("kube-apiserver-serving-clustertrustbundle-publisher-controller"), caPEM),
		ttlafterfinished.New(o("ttl-after-finished-controller")),
		vacprotection.New(o("volumeattributesclass-protection-controller")),
		volumeexpand.New(o("volume-expand-controller")),
	}...) {
		gaps.add(l)
		p.run(l.Name(), l.Run)
	}
	return startNetworkLoops(p, o, ranges, gaps)
}

func startScheduler(p *parts, dial connect, gaps *gapList, o *Options) error {
	log := o.logger()
	profiles, extenders, err := o.scheduling()
	if err != nil {
		return err
	}
	c, err := dial(schedulerIdentity)
	if err != nil {
		return err
	}
	events := client.NewRecorder(client.RecorderOptions{Client: c, Component: "default-scheduler", Logger: log})
	p.run("events", events.Run)
	s, err := scheduler.New(scheduler.Options{Client: c, Profiles: profiles, Extenders: extenders, Logger: log, Recorder: events})
	if err != nil {
		return err
	}
	gaps.add(s)
	p.run("scheduler", s.Run)
	return nil
}
