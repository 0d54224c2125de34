package cli

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// The claim: a Deployment of three, and a Service.
//
//go:embed demo/deployment.json
var demoDeployment string

//go:embed demo/service.json
var demoService string

func newDemo(c *common) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "File a Deployment of three, delete a pod, and watch the loops close the gap",
		Long: `File the Deployment and the Service "hello" in the namespace default, with an
image that setpoint carries. Once all three pods are ready, delete one, and print
each step by which the loops replace it, with its time. It may be shown again and
again.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := openAPI(c.dataDir)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), 3*time.Minute, fmt.Errorf("the demo did not end in three minutes; `setpoint status` tells what is waited for"))
			defer cancel()
			d := &demo{api: a, out: cmd.OutOrStdout(), changes: make(chan change)}
			if err := d.run(ctx); err != nil {
				if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
					return cause
				}
				return err
			}
			fmt.Fprintf(d.out, "\nnext:\n  %[1]s kubectl get deployment,pod,service\n  %[1]s kubectl scale deployment hello --replicas 5\n  %[1]s status\n  %[1]s down\n", c.call())
			return nil
		},
	}
}

// demo follows the objects of the demo and tells what happens to them.
type demo struct {
	api     *api
	out     io.Writer
	changes chan change
	start   time.Time
	quiet   bool // nothing is told

	pods       map[string]*corev1.Pod
	endpoints  map[string]bool // ready addresses
	deployment *appsv1.Deployment
}

// change is one event of one of the watches.
type change struct {
	kind, event string
	object      json.RawMessage
	at          time.Time
	err         error
}

const demoSelector = "labelSelector=app%3Dhello"

func (d *demo) run(ctx context.Context) error {
	d.pods, d.endpoints = map[string]*corev1.Pod{}, map[string]bool{}
	d.quiet = true // what is there already is no news
	for kind, path := range map[string]string{
		"Deployment":    "/apis/apps/v1/namespaces/default/deployments?fieldSelector=metadata.name%3Dhello",
		"Pod":           "/api/v1/namespaces/default/pods?" + demoSelector,
		"EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dhello",
	} {
		var list struct {
			Metadata struct{ ResourceVersion string }
			Items    []json.RawMessage
		}
		if err := d.api.do(ctx, http.MethodGet, path, "", nil, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			if err := d.take(change{kind: kind, object: item}); err != nil {
				return err
			}
		}
		body, err := d.api.stream(ctx, http.MethodGet, path+"&watch=1&resourceVersion="+list.Metadata.ResourceVersion, "", nil)
		if err != nil {
			return err
		}
		defer body.Close()
		go d.follow(ctx, kind, body)
	}
	d.quiet, d.start = false, time.Now()
	filed := false
	for path, manifest := range map[string]string{"/api/v1/namespaces/default/services": demoService, "/apis/apps/v1/namespaces/default/deployments": demoDeployment} {
		err := d.api.do(ctx, http.MethodPost, path, "application/json", strings.NewReader(manifest), nil)
		if err != nil && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		filed = filed || err == nil
	}
	if filed {
		fmt.Fprintln(d.out, "you filed a claim: Deployment hello, three replicas, and Service hello")
	} else {
		fmt.Fprintln(d.out, "the claim is filed already: Deployment hello and Service hello")
	}
	if d.deployment != nil && d.wanted() == 0 {
		return errors.New("Deployment hello is scaled to 0, so there is no pod to delete: `setpoint kubectl scale deployment hello --replicas 3`")
	}
	if err := d.until(ctx, func() bool { return d.settled() }); err != nil {
		return err
	}
	var victim string
	for name := range d.pods {
		if victim == "" || name < victim {
			victim = name
		}
	}
	fmt.Fprintf(d.out, "\nall %d replicas are ready. Now one pod is deleted by hand, and the room of loops closes the gap:\n", d.wanted())
	d.start = time.Now()
	d.line("you", "delete pod %s", victim)
	if err := d.api.do(ctx, http.MethodDelete, "/api/v1/namespaces/default/pods/"+victim, "", nil, nil); err != nil {
		return err
	}
	return d.until(ctx, func() bool { return d.pods[victim] == nil && d.settled() })
}

// wanted is how many pods are claimed: three, unless somebody scaled it since.
func (d *demo) wanted() int { return int(*d.deployment.Spec.Replicas) }

// settled: as many pods as are claimed, all ready and reachable, and the
// Deployment says so.
func (d *demo) settled() bool {
	if d.deployment == nil || len(d.pods) != d.wanted() || int(d.deployment.Status.ReadyReplicas) != d.wanted() || d.deployment.Status.ObservedGeneration != d.deployment.Generation {
		return false
	}
	for _, p := range d.pods {
		if !podReady(p) || !d.endpoints[p.Status.PodIP] {
			return false
		}
	}
	return true
}

func (d *demo) follow(ctx context.Context, kind string, body io.Reader) {
	dec := json.NewDecoder(body)
	for {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		err := dec.Decode(&e)
		select {
		case d.changes <- change{kind, e.Type, e.Object, time.Now(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (d *demo) until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case c := <-d.changes:
			if c.err != nil {
				return fmt.Errorf("watch of %ss: %w", c.kind, c.err)
			}
			if err := d.take(c); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (d *demo) line(who, format string, args ...any) {
	if d.quiet {
		return
	}
	fmt.Fprintf(d.out, "%7.1f ms  %-14s %s\n", float64(time.Since(d.start).Microseconds())/1000, who, fmt.Sprintf(format, args...))
}

// take tells what a change means, by comparing with what was known.
func (d *demo) take(c change) error {
	switch c.kind {
	case "Deployment":
		var dep appsv1.Deployment
		if err := json.Unmarshal(c.object, &dep); err != nil {
			return err
		}
		if d.deployment != nil && d.deployment.Status.ReadyReplicas != dep.Status.ReadyReplicas {
			d.line("deployment", "%d of %d replicas ready", dep.Status.ReadyReplicas, *dep.Spec.Replicas)
		}
		d.deployment = &dep
	case "Pod":
		var pod corev1.Pod
		if err := json.Unmarshal(c.object, &pod); err != nil {
			return err
		}
		d.pod(c.event, &pod)
	case "EndpointSlice":
		var s discoveryv1.EndpointSlice
		if err := json.Unmarshal(c.object, &s); err != nil {
			return err
		}
		d.slice(&s)
	}
	return nil
}

func (d *demo) pod(event string, pod *corev1.Pod) {
	had := d.pods[pod.Name]
	if event == "DELETED" {
		if delete(d.pods, pod.Name); had != nil {
			d.line("kubelet", "pod %s is gone", pod.Name)
		}
		return
	}
	d.pods[pod.Name] = pod
	if had == nil {
		had = &corev1.Pod{}
		d.line("replicaset", "create pod %s", pod.Name)
	}
	if had.Spec.NodeName != pod.Spec.NodeName {
		d.line("scheduler", "bind pod %s to node %s", pod.Name, pod.Spec.NodeName)
	}
	if had.DeletionTimestamp == nil && pod.DeletionTimestamp != nil {
		d.line("api server", "pod %s is to end within %d s", pod.Name, *pod.DeletionGracePeriodSeconds)
	}
	if had.Status.Phase != corev1.PodRunning && pod.Status.Phase == corev1.PodRunning {
		d.line("kubelet", "pod %s runs at %s", pod.Name, pod.Status.PodIP)
	}
	if pod.DeletionTimestamp == nil && !podReady(had) && podReady(pod) {
		d.line("kubelet", "pod %s is ready", pod.Name)
	}
}

func (d *demo) slice(s *discoveryv1.EndpointSlice) {
	now := map[string]bool{}
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			now[e.Addresses[0]] = true
		}
	}
	for a := range now {
		if !d.endpoints[a] {
			d.line("endpointslice", "%s takes connections to Service hello", a)
		}
	}
	for a := range d.endpoints {
		if !now[a] {
			d.line("endpointslice", "%s takes no new connections", a)
		}
	}
	d.endpoints = now
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
