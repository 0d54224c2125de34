package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
)

// ServiceAllocator gives services their cluster IPs, node ports and health
// check ports. What is taken is known from the services themselves, read when
// the first one passes: there is no second record that could disagree.
//
//	Admit:    take what the new state needs         (Rollback: give it back)
//	stored:   Commit gives back what only the old state needed
//	deleted:  Commit gives everything back, once the object is really gone
//
// Addresses come from the range that the cluster was made with, and from those
// of ServiceCIDRs that are ready; an IPAddress that somebody made by hand keeps
// its address for whom it names.
// https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/
//
// Before a request is refused because something is taken or nothing is left,
// the pools are compared with the services once more.
//
// Every number has an owner, the service's UID or, until it has one, a ticket;
// so a release that comes late or twice can never free what somebody else has
// got meanwhile.
type ServiceAllocator struct {
	get   GetFunc
	list  ListFunc
	cidrs []netip.Prefix // of the primary family first
	ports [2]int         // first and last node port
	mutateOnly

	mu struct {
		sync.Mutex
		ips     map[corev1.IPFamily]*pool // addresses as numbers; nil before the services were read
		nodes   *pool                     // offsets from ports[0]
		tickets uint64
	}
}

// Default node ports, as upstream.
const (
	FirstNodePort = 30000
	LastNodePort  = 32767
)

var services = client.Resource{Version: "v1", Resource: "services"}

// NewServiceAllocator allocates addresses in cidrs: one, or one of each family,
// the primary first.
func NewServiceAllocator(cidrs []netip.Prefix, get GetFunc, list ListFunc) (*ServiceAllocator, error) {
	if err := validServiceRanges(cidrs); err != nil {
		return nil, err
	}
	a := &ServiceAllocator{get: get, list: list, ports: [2]int{FirstNodePort, LastNodePort}}
	for _, p := range cidrs {
		a.cidrs = append(a.cidrs, p.Masked())
	}
	return a, nil
}

// Name implements Plugin.
func (*ServiceAllocator) Name() string { return "ServiceAllocator" }

// Load reads the services there are. Admit does it when nobody did before.
func (a *ServiceAllocator) Load(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loadLocked(ctx)
}

func (a *ServiceAllocator) loadLocked(ctx context.Context) error {
	if a.mu.ips != nil {
		return nil
	}
	ports := a.ports[1] - a.ports[0] + 1
	a.mu.ips = map[corev1.IPFamily]*pool{corev1.IPv4Protocol: newPool(), corev1.IPv6Protocol: newPool()}
	a.mu.nodes = newPool(span{static: min(max(16, ports/32), 128, ports), size: ports})
	err := a.compareLocked(ctx)
	if err != nil {
		a.mu.ips, a.mu.nodes = nil, nil
	}
	return err
}

// compareLocked makes the pools agree with the services there are. What a
// ticket holds stays: its service may be stored or not.
func (a *ServiceAllocator) compareLocked(ctx context.Context) error {
	list, err := a.list(ctx, services, "")
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("read the services to learn their addresses: %w", err))
	}
	alive := map[string]bool{}
	for _, obj := range list {
		alive[string(obj.GetUID())] = true
	}
	for _, p := range []*pool{a.mu.ips[corev1.IPv4Protocol], a.mu.ips[corev1.IPv6Protocol], a.mu.nodes} {
		maps.DeleteFunc(p.owner, func(_ num, owner string) bool { return !isTicket(owner) && !alive[owner] })
	}
	for _, obj := range list {
		if svc, ok := obj.(*corev1.Service); ok {
			for _, n := range a.numbersOf(svc) {
				n.pool.take(n.n, string(svc.UID))
			}
		}
	}
	return nil
}

// number is one thing allocated.
type number struct {
	pool *pool
	n    num
}

// numbersOf lists what a service holds. Ports outside of the range (which may
// have been another once) are nobody's business.
func (a *ServiceAllocator) numbersOf(svc *corev1.Service) (out []number) {
	for _, s := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(s); err == nil {
			out = append(out, number{a.mu.ips[familyOf(ip)], numOf(ip)})
		}
	}
	add := func(port int32) {
		if n, err := a.portOffset(port); err == nil {
			out = append(out, number{a.mu.nodes, n})
		}
	}
	for _, p := range svc.Spec.Ports {
		add(p.NodePort)
	}
	add(svc.Spec.HealthCheckNodePort)
	return out
}

func (a *ServiceAllocator) portOffset(port int32) (num, error) {
	n := int(port) - a.ports[0]
	if port == 0 || n < 0 || int(port) > a.ports[1] {
		return num{}, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.ports[0], a.ports[1])
	}
	return num{lo: uint64(n)}, nil
}

// Admit implements Plugin.
func (a *ServiceAllocator) Admit(ctx context.Context, r *Request) error {
	if r.Resource != services.GroupResource() || r.Subresource != "" {
		return nil
	}
	old, _ := r.Old.(*corev1.Service)
	if r.Operation == Delete {
		if old != nil && !r.DryRun {
			r.Commit = append(r.Commit, func() { a.releaseIfGone(old) })
		}
		return nil
	}
	svc, ok := r.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	if old != nil {
		carryOver(svc, old)
	}
	if spec := &svc.Spec; spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if !wellFormed(&svc.Spec) {
		return nil
	}
	if err := a.families(svc, old); err != nil {
		return err
	}
	return a.allocate(ctx, r, svc, old)
}

// allocate takes what svc needs and old did not hold.
func (a *ServiceAllocator) allocate(ctx context.Context, r *Request, svc, old *corev1.Service) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.loadLocked(ctx); err != nil {
		return err
	}
	ranges, err := a.ranges(ctx)
	if err != nil {
		return err
	}
	for f, p := range a.mu.ips {
		p.spans = p.spans[:0]
		for _, r := range ranges[f] {
			p.spans = append(p.spans, spanOf(r))
		}
	}
	a.mu.tickets++
	t := &ticket{a: a, svc: svc, old: old, ranges: ranges, name: fmt.Sprintf("ticket-%d", a.mu.tickets)}
	if old != nil {
		t.uid = string(old.UID)
	}
	err = t.run(ctx)
	if t.conflict || errors.Is(err, errFull) {
		// Who holds it may be gone: what becomes of a deleted service is not
		// always told here.
		t.undoLocked()
		if lerr := a.compareLocked(ctx); lerr != nil {
			return lerr
		}
		err = t.run(ctx)
	}
	if err != nil {
		t.undoLocked()
		return t.refusal(err)
	}
	r.Rollback = append(r.Rollback, t.undo)
	if r.DryRun {
		r.Commit = append(r.Commit, t.undo)
		return nil
	}
	r.Commit = append(r.Commit, func() { t.commit(old) })
	return nil
}

// releaseIfGone gives back what a service held when it does not exist any
// more; one with finalizers goes later, with the update that takes the last.
func (a *ServiceAllocator) releaseIfGone(svc *corev1.Service) {
	// The request's context may have ended; this must be done nonetheless.
	obj, err := a.get(context.Background(), services, svc.Namespace, svc.Name)
	if err == nil && obj.GetUID() == svc.UID || err != nil && !apierrors.IsNotFound(err) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.ips != nil {
		a.releaseLocked(svc, svc.UID)
	}
}

func (a *ServiceAllocator) releaseLocked(svc *corev1.Service, owner types.UID) {
	for _, n := range a.numbersOf(svc) {
		n.pool.release(n.n, string(owner))
	}
}
