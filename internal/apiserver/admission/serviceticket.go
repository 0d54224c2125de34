package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ticket is what one request has taken and not yet stored.
type ticket struct {
	a      *ServiceAllocator
	svc    *corev1.Service
	old    *corev1.Service                    // nil when it is new
	ranges map[corev1.IPFamily][]netip.Prefix // where addresses come from
	name   string                             // owner of what is taken until it is stored
	uid    string                             // of the stored service; "" when it is new
	held   []number
	// conflict says that something was asked for that another one holds.
	conflict bool
}

func isTicket(owner string) bool { return strings.HasPrefix(owner, "ticket-") }

// holds tells that the service has a number already.
func (t *ticket) holds(p *pool, n num) bool {
	owner, ok := p.owner[n]
	return ok && (owner == t.name || t.uid != "" && owner == t.uid)
}

// take takes a certain number; what the service holds already, it may keep.
func (t *ticket) take(p *pool, n num, taken error) error {
	if t.holds(p, n) {
		return nil
	}
	if !p.take(n, t.name) {
		t.conflict = true
		return taken
	}
	t.held = append(t.held, number{p, n})
	return nil
}

func (t *ticket) next(p *pool) (num, error) {
	n, err := p.next(t.name)
	if err == nil {
		t.held = append(t.held, number{p, n})
	}
	return n, err
}

// run takes all that the service needs, and writes it into the service.
func (t *ticket) run(ctx context.Context) error {
	t.conflict = false
	if needsClusterIP(t.svc) {
		if err := t.clusterIPs(ctx); err != nil {
			return err
		}
	}
	if needsNodePorts(t.svc) || hasNodePorts(t.svc) {
		if err := t.nodePorts(); err != nil {
			return err
		}
	}
	if needsHealthCheckPort(t.svc) {
		return t.healthCheckPort()
	}
	return nil
}

// hasClusterIP: services of these types have the field, be it None.
func hasClusterIP(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	}
	return false
}

func needsClusterIP(svc *corev1.Service) bool { return hasClusterIP(svc) && !isHeadless(svc) }

func needsNodePorts(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	}
	return false
}

// hasNodePorts: a load balancer that wants none may still name some.
func hasNodePorts(svc *corev1.Service) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			return true
		}
	}
	return false
}

func needsHealthCheckPort(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// clusterIPs takes an address of each family. A service that has addresses can
// but get a second one: validation refuses any other change of them.
func (t *ticket) clusterIPs(ctx context.Context) error {
	spec, from := &t.svc.Spec, 0
	if t.old != nil && hasClusterIP(t.old) {
		if len(t.old.Spec.IPFamilies) != 1 || len(spec.IPFamilies) != 2 || len(spec.ClusterIPs) == 0 {
			return nil
		}
		from = 1
	}
	for i := from; i < len(spec.IPFamilies); i++ {
		if i < len(spec.ClusterIPs) {
			ip, _ := netip.ParseAddr(spec.ClusterIPs[i]) // wellFormed has read it
			if err := t.thisIP(ctx, ip); apierrors.IsInternalError(err) {
				return err
			} else if err != nil {
				return field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %v", spec.ClusterIPs[i], err))
			}
			continue
		}
		ip, err := t.anyIP(ctx, spec.IPFamilies[i])
		if err != nil {
			return err
		}
		spec.ClusterIPs = append(slices.Clone(spec.ClusterIPs), ip.String())
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// anyIP takes some address that nobody keeps for another.
func (t *ticket) anyIP(ctx context.Context, f corev1.IPFamily) (netip.Addr, error) {
	ips := t.a.mu.ips[f]
	var kept []num
	defer func() {
		for _, n := range kept {
			ips.release(n, t.name)
		}
	}()
	for {
		n, err := ips.next(t.name)
		if err != nil {
			return netip.Addr{}, err
		}
		ip := addressOf(n, f)
		reserved, err := t.a.reserved(ctx, ip, t.svc)
		if err == nil && !reserved {
			t.held = append(t.held, number{ips, n})
			return ip, nil
		}
		kept = append(kept, n) // until another is found
		if err != nil {
			return netip.Addr{}, err
		}
	}
}

// thisIP takes a certain address.
func (t *ticket) thisIP(ctx context.Context, ip netip.Addr) error {
	if err := checkRange(ip, t.ranges[familyOf(ip)]); err != nil {
		return err
	}
	reserved, err := t.a.reserved(ctx, ip, t.svc)
	if err != nil {
		return err
	}
	if reserved {
		return errAllocated
	}
	return t.take(t.a.mu.ips[familyOf(ip)], numOf(ip), errAllocated)
}

var errPortTaken = errors.New("provided port is already allocated")

func (t *ticket) nodePorts() error {
	allocate := needsNodePorts(t.svc)
	ports := t.svc.Spec.Ports
	for i := range ports {
		path := field.NewPath("spec", "ports").Index(i).Child("nodePort")
		if ports[i].NodePort != 0 {
			n, err := t.a.portOffset(ports[i].NodePort)
			if err == nil {
				err = t.take(t.a.mu.nodes, n, errPortTaken)
			}
			if err != nil {
				return field.Invalid(path, ports[i].NodePort, err.Error())
			}
			continue
		}
		if !allocate {
			continue
		}
		// One port for TCP and UDP alike (DNS) gets one node port.
		if same := sameOtherProtocol(ports, i); same != 0 {
			ports[i].NodePort = same
			continue
		}
		n, err := t.next(t.a.mu.nodes)
		if err != nil {
			return err
		}
		ports[i].NodePort = int32(t.a.ports[0] + int(n.lo))
	}
	return nil
}

func sameOtherProtocol(ports []corev1.ServicePort, i int) int32 {
	found := int32(0)
	for j := range ports {
		if j == i || ports[j].NodePort == 0 {
			continue
		}
		if ports[j].Port == ports[i].Port && ports[j].Protocol != ports[i].Protocol {
			found = ports[j].NodePort
		}
	}
	for j := range ports {
		if found != 0 && ports[j].NodePort == found && ports[j].Protocol == ports[i].Protocol {
			return 0
		}
	}
	return found
}

func (t *ticket) healthCheckPort() error {
	spec := &t.svc.Spec
	if spec.HealthCheckNodePort == 0 {
		n, err := t.next(t.a.mu.nodes)
		if err == nil {
			spec.HealthCheckNodePort = int32(t.a.ports[0] + int(n.lo))
		}
		return err
	}
	n, err := t.a.portOffset(spec.HealthCheckNodePort)
	if err == nil {
		err = t.take(t.a.mu.nodes, n, errPortTaken)
	}
	if err != nil {
		return field.Invalid(field.NewPath("spec", "healthCheckNodePort"), spec.HealthCheckNodePort, fmt.Sprintf("failed to allocate requested HealthCheck NodePort %d: %v", spec.HealthCheckNodePort, err))
	}
	return nil
}

// refusal is the API's answer to an error of run.
func (t *ticket) refusal(err error) error {
	var invalid *field.Error
	if !errors.As(err, &invalid) {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP or nodePort: %w", err))
	}
	return invalidService(t.svc, field.ErrorList{invalid})
}

func (t *ticket) undo() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.undoLocked()
}

func (t *ticket) undoLocked() {
	for _, n := range t.held {
		n.pool.release(n.n, t.name)
	}
	t.held = nil
}

// commit makes the stored service the owner, and gives back what only its old
// state held.
func (t *ticket) commit(old *corev1.Service) {
	gone := old != nil && t.svc.DeletionTimestamp != nil && len(t.svc.Finalizers) == 0
	t.a.mu.Lock()
	uid := t.uid
	if uid == "" {
		uid = string(t.svc.UID) // given since Admit
	}
	for _, n := range t.held {
		n.pool.owner[n.n] = uid
	}
	t.held = nil
	if old != nil {
		kept := map[number]bool{}
		for _, n := range t.a.numbersOf(t.svc) {
			kept[n] = true
		}
		for _, n := range t.a.numbersOf(old) {
			if !kept[n] {
				n.pool.release(n.n, uid)
			}
		}
	}
	t.a.mu.Unlock()
	if gone {
		t.a.releaseIfGone(t.svc)
	}
}
