package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func makeService(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "service"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.43.0.10", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// makePod returns a ready pod with the address 10.42.0.n.
func makePod(n int, change ...func(*corev1.Pod)) *corev1.Pod {
	ip := fmt.Sprintf("10.42.%d.%d", n/200, n%200)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", n), UID: types.UID(fmt.Sprint("uid", n)), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(now.Add(time.Duration(n) * time.Second))},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}, {IP: fmt.Sprintf("fd00::%x", n+1)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func makePods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = makePod(i)
	}
	return pods
}

func unready(p *corev1.Pod)  { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func deleted(p *corev1.Pod)  { at := metav1.NewTime(now); p.DeletionTimestamp = &at }
func done(p *corev1.Pod)     { p.Status.Phase = corev1.PodSucceeded }
func homeless(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }

func namedPort(name string, number int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{Name: name, ContainerPort: number})
	}
}

// server holds slices and takes the plan's steps.
type server struct {
	slices map[string]*discoveryv1.EndpointSlice
	writes []string
}

func (s *server) world(service *corev1.Service, pods []*corev1.Pod) world {
	w := world{service: service, pods: pods, zone: func(node string) string { return map[string]string{"node": "zone-a"}[node] },
		taken: func(name string) bool { return s.slices[name] != nil }}
	for _, slice := range s.slices {
		w.slices = append(w.slices, slice)
	}
	return w
}

// step takes one step, and says whether there was one.
func (s *server) step(service *corev1.Service, pods []*corev1.Pod) bool {
	if s.slices == nil {
		s.slices = map[string]*discoveryv1.EndpointSlice{}
	}
	next, _ := plan(s.world(service, pods))
	switch {
	case next.Create != nil:
		s.slices[next.Create.Name] = next.Create
		s.writes = append(s.writes, "create")
	case next.Update != nil:
		s.slices[next.Update.Name] = next.Update
		s.writes = append(s.writes, "update")
	case next.Remove != nil:
		delete(s.slices, next.Remove.Name)
		s.writes = append(s.writes, "delete")
	default:
		return false
	}
	return true
}

// settle steps until nothing is left to do and returns the writes.
func (s *server) settle(t *testing.T, service *corev1.Service, pods []*corev1.Pod) string {
	t.Helper()
	s.writes = nil
	for s.step(service, pods) {
		if len(s.writes) > 1000 {
			t.Fatal("it does not converge")
		}
	}
	return strings.Join(s.writes, " ")
}

// show lists the endpoints: "10.42.0.1 ready serving @8080", and slices that
// have none as their type.
func (s *server) show() string {
	var lines []string
	for _, slice := range s.slices {
		if len(slice.Endpoints) == 0 {
			lines = append(lines, "no "+string(slice.AddressType))
		}
		for _, ep := range slice.Endpoints {
			line := ep.Addresses[0]
			for word, on := range map[string]*bool{" ready": ep.Conditions.Ready, " serving": ep.Conditions.Serving, " terminating": ep.Conditions.Terminating} {
				if *on {
					line += word
				}
			}
			words := strings.Fields(line)
			slices.Sort(words[1:])
			line = strings.Join(words, " ")
			for _, p := range slice.Ports {
				line += fmt.Sprintf(" @%d", *p.Port)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func TestEndpoints(t *testing.T) {
	named := func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") }
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	headless := func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil }
	dual := func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	udp := func(s *corev1.Service) {
		s.Spec.Ports[0].TargetPort, s.Spec.Ports[0].Protocol = intstr.FromString("http"), corev1.ProtocolUDP
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 1}}},
			{Name: "s", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 15000}}}}
	}
	for _, test := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		{name: "no pods", service: makeService(), want: "no IPv4"},
		{name: "ready", service: makeService(), pods: []*corev1.Pod{makePod(1), makePod(2)}, want: "10.42.0.1 ready serving @8080; 10.42.0.2 ready serving @8080"},
		{name: "not ready", service: makeService(), pods: []*corev1.Pod{makePod(1, unready)}, want: "10.42.0.1 @8080"},
		{name: "not ready but published", service: makeService(publish), pods: []*corev1.Pod{makePod(1, unready)}, want: "10.42.0.1 ready @8080"},
		{name: "terminating", service: makeService(), pods: []*corev1.Pod{makePod(1, deleted)}, want: "10.42.0.1 serving terminating @8080"},
		{name: "terminating and not ready", service: makeService(), pods: []*corev1.Pod{makePod(1, deleted, unready)}, want: "10.42.0.1 terminating @8080"},
		{name: "ended, no address", service: makeService(), pods: []*corev1.Pod{makePod(1, done), makePod(2, homeless)}, want: "no IPv4"},
		{name: "target port left out", service: makeService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.IntOrString{} }), pods: []*corev1.Pod{makePod(1)}, want: "10.42.0.1 ready serving @80"},
		{name: "named ports differ", service: makeService(named), pods: []*corev1.Pod{makePod(1, namedPort("http", 8080)), makePod(2, namedPort("http", 9090))}, want: "10.42.0.1 ready serving @8080; 10.42.0.2 ready serving @9090"},
		{name: "named port missing", service: makeService(named), pods: []*corev1.Pod{makePod(1)}, want: "10.42.0.1 ready serving"},
		{name: "named port of another protocol", service: makeService(udp), pods: []*corev1.Pod{makePod(1, namedPort("http", 8080))}, want: "10.42.0.1 ready serving"},
		{name: "named port of a sidecar", service: makeService(named), pods: []*corev1.Pod{makePod(1, sidecar)}, want: "10.42.0.1 ready serving @15000"},
		{name: "headless without ports", service: makeService(headless), pods: []*corev1.Pod{makePod(1)}, want: "10.42.0.1 ready serving"},
		{name: "dual stack", service: makeService(dual), pods: []*corev1.Pod{makePod(1)}, want: "10.42.0.1 ready serving @8080; fd00::2 ready serving @8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s server
			s.settle(t, test.service, test.pods)
			if got := s.show(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if again := s.settle(t, test.service, test.pods); again != "" {
				t.Errorf("against a world already right: %s", again)
			}
		})
	}
}

func TestWritesAreMinimal(t *testing.T) {
	var s server
	service, pods := makeService(), makePods(250)
	expect := func(what, want string) {
		t.Helper()
		if got := s.settle(t, service, pods); got != want {
			t.Errorf("%s: wrote %q, want %q", what, got, want)
		}
	}
	expect("first", "create create create")
	unready(pods[30])
	expect("one changed", "update")
	pods = slices.Delete(pods, 10, 12)
	expect("two gone", "update")
	pods = append(pods, makePod(300))
	expect("one new", "update") // into a slice with room
	service.Labels = map[string]string{"team": "a"}
	expect("labels", "update update update")
	pods = pods[:5]
	expect("nearly all gone", "update delete delete")
	pods = nil
	expect("all gone", "update") // becomes the placeholder
	pods = makePods(1)
	expect("the first again", "update") // the placeholder is used
	service.Spec.Ports[0].TargetPort = intstr.FromInt32(9090)
	expect("another port", "update")
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	expect("another family", "create delete")
}

// In every state between two writes each ready pod is in some slice, once it
// has been in one: traffic is not to break while endpoints move.
func TestNoEndpointIsLostOnTheWay(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s server
		service := makeService(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
		var pods []*corev1.Pod
		shown := map[string]bool{}
		for range 40 {
			switch r.IntN(3) {
			case 0:
				for range r.IntN(120) {
					n := r.IntN(1 << 15)
					pods = append(pods, makePod(n, namedPort("http", 8080+int32(n%2))))
				}
				seen := map[types.UID]bool{}
				pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { dup := seen[p.UID]; seen[p.UID] = true; return dup })
			case 1:
				pods = slices.DeleteFunc(pods, func(*corev1.Pod) bool { return r.IntN(3) == 0 })
			case 2:
				for _, p := range pods {
					if r.IntN(4) == 0 {
						unready(p)
					}
				}
			}
			want := map[string]bool{}
			for _, p := range pods {
				want[p.Status.PodIP] = true
			}
			for steps := r.IntN(6); steps > 0 && s.step(service, slices.Clone(pods)); steps-- { // a crash comes between any two
				now := map[string]bool{}
				for _, slice := range s.slices {
					if len(slice.Endpoints) > maxEndpoints {
						t.Fatalf("seed %d: a slice of %d", seed, len(slice.Endpoints))
					}
					for _, ep := range slice.Endpoints {
						now[ep.Addresses[0]] = true
					}
				}
				for ip := range shown {
					if want[ip] && !now[ip] {
						t.Fatalf("seed %d: %s was lost", seed, ip)
					}
				}
				shown = now
			}
		}
		s.settle(t, service, pods)
		if got := len(strings.Split(s.show(), "; ")); len(pods) > 0 && got != len(pods) {
			t.Errorf("seed %d: %d endpoints of %d pods", seed, got, len(pods))
		}
	}
}

// A copy of the loop that does not see yet what another has made must not make
// it again under another name.
func TestNamesAreStable(t *testing.T) {
	var a, b server
	a.settle(t, makeService(), makePods(150))
	b.settle(t, makeService(), makePods(150))
	for name := range a.slices {
		if b.slices[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	long := makeService(func(s *corev1.Service) { s.Name = strings.Repeat("x", 63) })
	w := world{service: long, taken: func(string) bool { return false }}
	slice := newSlice(long, corev1.IPv4Protocol, nil, nil)
	if name(w, slice); !strings.HasPrefix(slice.Name, long.Name+"-") {
		t.Errorf("name %s", slice.Name)
	}
}

func TestDescription(t *testing.T) {
	service := makeService(func(s *corev1.Service) {
		s.Labels = map[string]string{"app": "web"}
		s.Annotations = map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "{}"}
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	host := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "web" }
	var s server
	s.settle(t, service, []*corev1.Pod{makePod(1, host)})
	for _, slice := range s.slices {
		if got := fmt.Sprint(slice.Labels, slice.Annotations); got != "map[app:web endpointslice.kubernetes.io/managed-by:endpointslice-controller.k8s.io kubernetes.io/service-name:web service.kubernetes.io/headless:] map[a:b]" {
			t.Errorf("described as %s", got)
		}
		if ref := slice.OwnerReferences[0]; ref.Kind != "Service" || ref.UID != "service" || !*ref.Controller {
			t.Errorf("owner %+v", ref)
		}
		ep := slice.Endpoints[0]
		if *ep.Hostname != "db-0" || *ep.Zone != "zone-a" || *ep.NodeName != "node" || ep.TargetRef.Name != "p1" ||
			ep.Hints.ForZones[0].Name != "zone-a" || ep.Hints.ForNodes[0].Name != "node" {
			t.Errorf("endpoint %+v", ep)
		}
	}
}
