package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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

	services, slices, pods, nodes, ranges client.View // nodes is this one

	checks checks

	tables []*Table               // of each family; none until Run; their owner is the loop's one worker
	parts  map[loop.Key][]Program // what each key has in force in each of the tables; same owner
	loop   *loop.Loop
}

// podKeys sets the keys of pods apart from those of Services: a namespace
// cannot hold a slash.
const podKeys = "pod/"

// rangesKey is that of the ranges of services.
var rangesKey = loop.Key{Namespace: "ranges/"}

const byService = "service"

// New makes the loop for the node named node.
func New(host *network.Host, node string, c client.Interface, log *slog.Logger) *Proxy {
	p := &Proxy{host: host, node: node, log: log, parts: map[loop.Key][]Program{}}
	p.checks.listen = listens(host.Families())
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
	p.ranges = c.View(client.ServiceCIDRs, client.ViewOptions{})
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
	for _, v := range []client.View{p.services, p.slices, p.pods, p.nodes, p.ranges} {
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
	defer p.ranges.Handle(func(_, _ client.Object) { p.loop.Look(rangesKey) })()
	p.loop.Look(rangesKey)
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

// start replaces the tables by the programs of all that exists now.
func (p *Proxy) start() error {
	ranges, _, err := p.serviceRanges()
	if err != nil {
		return err
	}
	if err := p.host.FenceRanges(ranges); err != nil {
		return err
	}
	parts := map[loop.Key][]Program{}
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
	p.close()
	for i, f := range p.host.Families() {
		table, err := NewTable(p.host, f)
		if err != nil {
			return err
		}
		if err := table.Replace(union(parts, i), ranges); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", f, err), table.Close())
		}
		p.tables = append(p.tables, table)
	}
	p.parts = parts
	return p.host.RouteServices(ranges)
}

// close lets go of the tables, if there are any.
func (p *Proxy) close() {
	for _, t := range p.tables {
		_ = t.Close() // nothing is lost: each change was acknowledged
	}
	p.tables = nil
}

// union is the whole program of a table.
func union(parts map[loop.Key][]Program, table int) Program {
	all := newProgram()
	for _, of := range parts {
		part := of[table]
		maps.Copy(all.Chains, part.Chains)
		maps.Copy(all.Gates, part.Gates)
		maps.Copy(all.Frontends, part.Frontends)
	}
	return all
}

// plan computes the parts of a key; empty ones when its object is gone.
func (p *Proxy) plan(key loop.Key) (parts []Program) {
	families := p.host.Families()
	if namespace, ok := strings.CutPrefix(key.Namespace, podKeys); ok {
		pod, _ := p.pods.Get(namespace, key.Name).(*corev1.Pod)
		for _, f := range families {
			if pod == nil {
				parts = append(parts, newProgram())
				continue
			}
			parts = append(parts, PlanPod(pod, f))
		}
		return parts
	}
	svc, _ := p.services.Get(key.Namespace, key.Name).(*corev1.Service)
	self := Self{p.node, zoneOf(p.nodes.Get("", p.node))}
	for _, f := range families {
		if svc == nil {
			parts = append(parts, newProgram())
			continue
		}
		parts = append(parts, PlanService(svc, p.endpoints(key), self, f))
	}
	return parts
}

func (p *Proxy) endpoints(key loop.Key) []*discoveryv1.EndpointSlice {
	return client.Indexed[*discoveryv1.EndpointSlice](p.slices, byService, key.Namespace+"/"+key.Name)
}

func (p *Proxy) reconcile(_ context.Context, key loop.Key) (loop.Outcome, error) {
	if len(p.tables) < len(p.host.Families()) { // writing them anew failed
		if err := p.start(); err != nil {
			return loop.Outcome{}, err
		}
	}
	if key == rangesKey {
		return p.reconcileRanges()
	}
	want := p.plan(key)
	for i, t := range p.tables {
		had := newProgram()
		if parts := p.parts[key]; parts != nil {
			had = parts[i]
		}
		if had.empty() && want[i].empty() {
			continue
		}
		if err := t.Change(had, want[i]); err != nil {
			// Somebody else changed the table: start all anew from what is known.
			p.log.Warn("nftables transaction failed; writing all rules anew", "family", t.family, "error", err)
			if again := p.start(); again != nil {
				return loop.Outcome{}, fmt.Errorf("%w; writing all rules anew: %w", err, again)
			}
			return p.outcome(key, want)
		}
		if p.parts[key] == nil {
			p.parts[key] = emptyParts(len(p.tables))
		}
		p.parts[key][i] = want[i]
		if err := forgetUDP(t.family, goneBackends(had, want[i])); err != nil {
			p.log.Warn("cannot forget UDP exchanges with backends that are gone", "service", key, "error", err)
		}
	}
	if !slices.ContainsFunc(want, func(part Program) bool { return !part.empty() }) {
		delete(p.parts, key)
	}
	return p.outcome(key, want)
}

func emptyParts(n int) []Program {
	parts := make([]Program, n)
	for i := range parts {
		parts[i] = newProgram()
	}
	return parts
}

func (p *Proxy) outcome(key loop.Key, parts []Program) (loop.Outcome, error) {
	svc, _ := p.services.Get(key.Namespace, key.Name).(*corev1.Service)
	if svc == nil || strings.HasPrefix(key.Namespace, podKeys) {
		return loop.Done(), p.checks.set(key, 0, 0)
	}
	if err := p.checks.set(key, checkOf(svc), p.endpointsHere(key)); err != nil {
		return loop.Outcome{}, err
	}
	var without []string
	served := false
	for i, f := range p.host.Families() {
		if !clusterIPOf(svc, f).IsValid() {
			continue
		}
		if len(parts[i].Chains) == 0 {
			without = append(without, f.String())
		} else {
			served = true
		}
	}
	switch {
	case len(without) == 0:
		return loop.Done(), nil
	case served:
		return loop.WaitFor("Service "+key.String(), "no endpoint of %s is ready", without[0]), nil
	}
	return loop.WaitFor("Service "+key.String(), "no endpoint is ready"), nil
}
