package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/loop"
)

// Proxy is the loop that keeps a node's rules as Services, EndpointSlices and
// host ports ask for.
type Proxy struct {
	host *network.Host
	node string
	log  *slog.Logger

	services, slices, pods, nodes client.View // nodes is this one

	checks checks

	table *Table               // nil until Run; its owner is the loop's one worker
	parts map[loop.Key]Program // what each key has in force; same owner
	loop  *loop.Loop
}

// podKeys sets the keys of pods apart from those of Services: a namespace
// cannot hold a slash.
const podKeys = "pod/"

const byService = "service"

// New makes the loop for the node named node.
func New(host *network.Host, node string, c client.Interface, log *slog.Logger) *Proxy {
	p := &Proxy{host: host, node: node, log: log, parts: map[loop.Key]Program{}}
	p.services = c.View(corev1.SchemeGroupVersion.WithResource("services"), client.ViewOptions{})
	p.slices = c.View(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), client.ViewOptions{})
	p.slices.Index(byService, func(o client.Object) []string {
		if svc := o.GetLabels()[discoveryv1.LabelServiceName]; svc != "" {
			return []string{o.GetNamespace() + "/" + svc}
		}
		return nil
	})
	p.pods = c.View(corev1.SchemeGroupVersion.WithResource("pods"), client.ViewOptions{FieldSelector: "spec.nodeName=" + node})
	p.nodes = c.View(corev1.SchemeGroupVersion.WithResource("nodes"), client.ViewOptions{FieldSelector: "metadata.name=" + node})
	// One worker: the table has one writer.
	p.loop = loop.New(loop.Options{Name: "proxy", Reconcile: p.reconcile, Workers: 1, Logger: log})
	return p
}

func (p *Proxy) Name() string     { return p.loop.Name() }
func (p *Proxy) Gaps() []loop.Gap { return p.loop.Gaps() }

// Run puts the whole program into force in one step once everything is known
// (until then whatever an earlier run left stays in force), then follows the
// changes until ctx ends. The rules stay.
func (p *Proxy) Run(ctx context.Context) error {
	for _, v := range []client.View{p.services, p.slices, p.pods, p.nodes} {
		if err := v.WaitSynced(ctx); err != nil {
			return err
		}
	}
	if err := p.start(); err != nil {
		return err
	}
	defer p.close()
	defer p.services.Handle(func(old, new client.Object) { p.look("", old, new) })()
	defer p.pods.Handle(func(old, new client.Object) {
		if hasHostPorts(old) || hasHostPorts(new) {
			p.look(podKeys, old, new)
		}
	})()
	defer p.slices.Handle(func(old, new client.Object) {
		for _, o := range []client.Object{old, new} {
			if o != nil && o.GetLabels()[discoveryv1.LabelServiceName] != "" {
				p.loop.Look(loop.Key{Namespace: o.GetNamespace(), Name: o.GetLabels()[discoveryv1.LabelServiceName]})
			}
		}
	})()
	defer p.nodes.Handle(func(old, new client.Object) {
		// What is near is known by the node's zone, which changes hardly ever.
		if zoneOf(old) != zoneOf(new) {
			for _, o := range p.services.List("") {
				p.look("", nil, o)
			}
		}
	})()
	defer p.checks.close()
	return p.loop.Run(ctx)
}

func zoneOf(o client.Object) string {
	if o == nil {
		return ""
	}
	return o.GetLabels()[corev1.LabelTopologyZone]
}

func (p *Proxy) look(prefix string, old, new client.Object) {
	if new == nil {
		new = old
	}
	p.loop.Look(loop.Key{Namespace: prefix + new.GetNamespace(), Name: new.GetName()})
}

func hasHostPorts(o client.Object) bool {
	if o == nil {
		return false
	}
	spec := &o.(*corev1.Pod).Spec
	if spec.HostNetwork {
		return false
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort != 0 {
					return true
				}
			}
		}
	}
	return false
}

// start replaces the table by the program of all that exists now.
func (p *Proxy) start() error {
	table, err := NewTable(p.host)
	if err != nil {
		return err
	}
	parts := map[loop.Key]Program{}
	for _, o := range p.services.List("") {
		key := loop.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
		parts[key] = p.plan(key)
	}
	for _, o := range p.pods.List("") {
		if hasHostPorts(o) {
			key := loop.Key{Namespace: podKeys + o.GetNamespace(), Name: o.GetName()}
			parts[key] = p.plan(key)
		}
	}
	if err := table.Replace(union(parts)); err != nil {
		return errors.Join(err, table.Close())
	}
	p.close()
	p.table, p.parts = table, parts
	return p.host.RouteServices()
}

// close lets go of the table, if there is one.
func (p *Proxy) close() {
	if p.table != nil {
		_ = p.table.Close() // nothing is lost: each change was acknowledged
	}
}

func union(parts map[loop.Key]Program) Program {
	all := newProgram()
	for _, part := range parts {
		for name, c := range part.Chains {
			all.Chains[name] = c
		}
		for name, g := range part.Gates {
			all.Gates[name] = g
		}
		for f, name := range part.Frontends {
			all.Frontends[f] = name
		}
	}
	return all
}

// plan computes the part of a key; an empty one when its object is gone.
func (p *Proxy) plan(key loop.Key) Program {
	if namespace, ok := strings.CutPrefix(key.Namespace, podKeys); ok {
		if pod := p.pods.Get(namespace, key.Name); pod != nil {
			return PlanPod(pod.(*corev1.Pod))
		}
		return newProgram()
	}
	svc := p.services.Get(key.Namespace, key.Name)
	if svc == nil {
		return newProgram()
	}
	return PlanService(svc.(*corev1.Service), p.endpoints(key), Self{p.node, zoneOf(p.nodes.Get("", p.node))})
}

func (p *Proxy) endpoints(key loop.Key) []*discoveryv1.EndpointSlice {
	return client.Indexed[*discoveryv1.EndpointSlice](p.slices, byService, key.Namespace+"/"+key.Name)
}

func (p *Proxy) reconcile(_ context.Context, key loop.Key) (loop.Outcome, error) {
	had, want := p.parts[key], p.plan(key)
	if had.Chains == nil {
		had = newProgram()
	}
	if had.empty() && want.empty() {
		return p.outcome(key, want)
	}
	if err := p.table.Change(had, want); err != nil {
		// Somebody else changed the table: start it anew from what is known.
		p.log.Warn("nftables transaction failed; writing all rules anew", "error", err)
		p.parts[key] = want
		if again := p.start(); again != nil {
			return loop.Outcome{}, fmt.Errorf("%w; writing all rules anew: %w", err, again)
		}
		return p.outcome(key, want)
	}
	if p.parts[key] = want; want.empty() {
		delete(p.parts, key)
	}
	if err := forgetUDP(goneBackends(had, want)); err != nil {
		p.log.Warn("cannot forget UDP exchanges with backends that are gone", "service", key, "error", err)
	}
	return p.outcome(key, want)
}

func (p *Proxy) outcome(key loop.Key, part Program) (loop.Outcome, error) {
	svc := p.services.Get(key.Namespace, key.Name)
	if err := p.checks.set(key, checkOf(svc), p.endpointsHere(key)); err != nil {
		return loop.Outcome{}, err
	}
	if svc != nil && len(part.Chains) == 0 {
		if s := svc.(*corev1.Service); s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			return loop.WaitFor("Service "+key.String(), "no endpoint is ready"), nil
		}
	}
	return loop.Done(), nil
}
