package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// at is a URL of an address and a port.
func at(ip string, port any) string {
	return "http://" + net.JoinHostPort(ip, fmt.Sprint(port)) + "/"
}

// families tells the families of addresses: "IPv4", "IPv6 IPv4".
func families(ips ...string) string {
	var out []string
	for _, ip := range ips {
		addr, err := netip.ParseAddr(ip)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%q", ip))
		case addr.Is4():
			out = append(out, "IPv4")
		default:
			out = append(out, "IPv6")
		}
	}
	return strings.Join(out, " ")
}

func service(c *harness.Cluster, name string, args ...string) corev1.Service {
	c.T.Helper()
	var s corev1.Service
	decode(c, &s, append([]string{"get", "service", name, "-o", "json"}, args...)...)
	return s
}

func podIPs(p corev1.Pod) (ips []string) {
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

func hostIPs(p corev1.Pod) (ips []string) {
	for _, ip := range p.Status.HostIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// names waits until a name has exactly the addresses wanted, for a pod whose C
// library asks for both families.
func names(c *harness.Cluster, from, name string, want ...string) {
	c.T.Helper()
	slices.Sort(want)
	c.Eventually(time.Minute, fmt.Sprintf("%s has %v", name, want), func() error {
		out, err := c.Try("exec", from, "--", "nslookup", name)
		_, answer, _ := strings.Cut(out, "\n\n") // who answers comes first
		var got []string
		for line := range strings.Lines(answer) {
			if ip, ok := strings.CutPrefix(line, "Address: "); ok {
				got = append(got, strings.TrimSpace(ip))
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			return fmt.Errorf("got %v: %s (%v)", got, out, err)
		}
		return nil
	})
}

// reaches waits until a pod reaches a URL, or does not.
func reaches(c *harness.Cluster, from, url string, want bool) {
	c.T.Helper()
	c.Eventually(time.Minute, fmt.Sprintf("%s reaches %s: %t", from, url, want), func() error {
		out, err := c.Try("exec", from, "--", "timeout", "3", "tool", "get", url)
		if (err == nil) != want {
			return fmt.Errorf("%s: %v", out, err)
		}
		return nil
	})
}

// TestDualStack: pods, services, names and policies of both families, over a
// death of Setpoint. See
// https://kubernetes.io/docs/concepts/services-networking/dual-stack/.
func TestDualStack(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t, "--cluster-cidr", "10.142.0.0/16,fd00:142::/56", "--service-cidr", "10.143.0.0/16,fd00:143::/112")
	field := func(name, path string) string {
		return fmt.Sprintf("{name: %s, valueFrom: {fieldRef: {fieldPath: %s}}}", name, path)
	}
	facts := "env: [" + field("POD_IPS", "status.podIPs") + ", " + field("HOST_IPS", "status.hostIPs") + ", " + field("POD_IP", "status.podIP") + "]"
	c.Apply(onePod("asker", image, "", facts+", "+listens) + onePod("friend", image, "", listens) +
		onePod("host-network", image, "hostNetwork: true", `args: [serve, -http, ":18084"]`) +
		onePod("host-port", image, "", `ports: [{containerPort: 8080, hostPort: 18094}], `+listens))
	c.Apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: a, image: %q, args: [serve, -udp, ":8081"], %s}]}
`, image, listens))
	for name, spec := range map[string]string{
		"four":    "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4]",
		"six":     "ipFamilyPolicy: SingleStack, ipFamilies: [IPv6]",
		"unsaid":  "",
		"prefer":  "ipFamilyPolicy: PreferDualStack, type: NodePort",
		"require": "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4]",
		"each":    "ipFamilyPolicy: RequireDualStack, clusterIP: None",
		"sixes":   "ipFamilies: [IPv6], clusterIP: None",
	} {
		c.Apply(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: udp, port: 81, targetPort: 8081, protocol: UDP}], %s}\n", name, spec))
	}
	ready(c, "asker", "friend", "host-network", "host-port")
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")

	node := only(c)
	var nodeIPs []string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			nodeIPs = append(nodeIPs, a.Address)
		}
	}
	if got := families(nodeIPs...); got != "IPv4 IPv6" || len(node.Spec.PodCIDRs) != 2 || node.Spec.PodCIDR != node.Spec.PodCIDRs[0] {
		t.Fatalf("the node has the addresses %v and the ranges %v", nodeIPs, node.Spec.PodCIDRs)
	}

	t.Run("a pod", func(t *testing.T) {
		c := c.In(t)
		p := pod(c, "asker")
		ips := podIPs(p)
		for i, ip := range ips {
			if r := netip.MustParsePrefix(node.Spec.PodCIDRs[i]); !r.Contains(netip.MustParseAddr(ip)) {
				t.Errorf("the pod's address %s is not in the node's range %s", ip, r)
			}
		}
		if families(ips...) != "IPv4 IPv6" || p.Status.PodIP != ips[0] || !slices.Equal(hostIPs(p), nodeIPs) || p.Status.HostIP != nodeIPs[0] {
			t.Fatalf("the pod has %s, %v on %s, %v", p.Status.PodIP, ips, p.Status.HostIP, hostIPs(p))
		}
		contains(t, "its environment", sh(c, "asker", "env"), "POD_IPS="+strings.Join(ips, ",")+"\n", "HOST_IPS="+strings.Join(nodeIPs, ",")+"\n", "POD_IP="+ips[0]+"\n")
		contains(t, "its hosts file", sh(c, "asker", "cat /etc/hosts"), ips[0]+"\tasker\n", ips[1]+"\tasker\n")
		if h := pod(c, "host-network"); !slices.Equal(podIPs(h), nodeIPs) {
			t.Errorf("a pod in the host's network has %v, want %v", podIPs(h), nodeIPs)
		}
		for _, ip := range ips {
			answersFrom(c, at(ip, 8080), "asker answers")
			reaches(c, "friend", at(ip, 8080), true)
			reaches(c, "asker", at(ip, 8080), true)
		}
		for _, ip := range nodeIPs {
			answersFrom(c, at(ip, 18084), "answers")
			answersFrom(c, at(ip, 18094), "host-port answers")
			reaches(c, "friend", at(ip, 18094), true)
		}
	})

	all := map[string]string{"four": "IPv4", "six": "IPv6", "unsaid": "IPv4", "prefer": "IPv4 IPv6", "require": "IPv6 IPv4"}
	answer := func(c *harness.Cluster, name, want string) {
		c.T.Helper()
		s := service(c, name)
		if got := families(s.Spec.ClusterIPs...); got != want || s.Spec.ClusterIP != s.Spec.ClusterIPs[0] {
			c.T.Errorf("%s has %s, %v; want %s", name, s.Spec.ClusterIP, s.Spec.ClusterIPs, want)
		}
		for _, ip := range s.Spec.ClusterIPs {
			answersFrom(c, at(ip, 80), "web-")
			reaches(c, "asker", at(ip, 80), true)
		}
		names(c, "asker", name+".default.svc.cluster.local", s.Spec.ClusterIPs...)
	}
	t.Run("services", func(t *testing.T) {
		c := c.In(t)
		for name, want := range all {
			answer(c, name, want)
		}
		dual := service(c, "prefer")
		for _, ip := range dual.Spec.ClusterIPs {
			contains(t, "whose address it is", sh(c, "asker", "nslookup "+ip), "prefer.default.svc.cluster.local")
			answersUDP(c, net.JoinHostPort(ip, "81"))
		}
		for _, ip := range nodeIPs {
			answersFrom(c, at(ip, dual.Spec.Ports[0].NodePort), "web-")
			reaches(c, "asker", at(ip, dual.Spec.Ports[0].NodePort), true)
			answersUDP(c, net.JoinHostPort(ip, fmt.Sprint(dual.Spec.Ports[1].NodePort)))
		}
		// A pod reaches itself through each address of its service.
		c.Apply("apiVersion: v1\nkind: Service\nmetadata: {name: self}\nspec: {ipFamilyPolicy: RequireDualStack, selector: {app: friend}, ports: [{port: 80, targetPort: 8080}]}\n")
		for _, ip := range service(c, "self").Spec.ClusterIPs {
			reaches(c, "friend", at(ip, 80), true)
		}
	})
	t.Run("headless services", func(t *testing.T) {
		c := c.In(t)
		var each, sixes []string
		for _, p := range pods(c, "app=web") {
			each = append(each, podIPs(p)...)
			sixes = append(sixes, podIPs(p)[1])
		}
		names(c, "asker", "each.default.svc.cluster.local", each...)
		names(c, "asker", "sixes.default.svc.cluster.local", sixes...)
		contains(t, "whose address it is", sh(c, "asker", "nslookup "+sixes[0]), ".default.svc.cluster.local")
	})
	t.Run("names", func(t *testing.T) {
		c := c.In(t)
		dns := service(c, "kube-dns", "-n", "kube-system")
		if families(dns.Spec.ClusterIPs...) != "IPv4 IPv6" {
			t.Fatalf("the servers of names are at %v", dns.Spec.ClusterIPs)
		}
		contains(t, "whom pods ask", sh(c, "asker", "cat /etc/resolv.conf"), "nameserver "+dns.Spec.ClusterIPs[0]+"\n")
		for _, ip := range dns.Spec.ClusterIPs {
			contains(t, "asked at "+ip, sh(c, "asker", "nslookup prefer.default.svc.cluster.local "+ip), service(c, "prefer").Spec.ClusterIPs[1])
		}
	})
	t.Run("the API", func(t *testing.T) {
		c := c.In(t)
		const ca = "tool get -ca /var/run/secrets/kubernetes.io/serviceaccount/ca.crt "
		contains(t, "the API", sh(c, "asker", ca+"https://kubernetes.default/version"), "200", "v1.37")
		_, port, err := net.SplitHostPort(strings.TrimPrefix(c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		for _, ip := range nodeIPs {
			contains(t, "the API at "+ip, sh(c, "asker", ca+"https://"+net.JoinHostPort(ip, port)+"/version"), "200", "v1.37")
		}
	})
	t.Run("policies", func(t *testing.T) { testDualPolicies(t, c.In(t)) })
	t.Run("a service that changes", func(t *testing.T) {
		c := c.In(t)
		was := service(c, "four")
		c.Kubectl("patch", "service", "four", "-p", `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`)
		answer(c, "four", "IPv4 IPv6")
		grown := service(c, "four")
		if grown.Spec.ClusterIP != was.Spec.ClusterIP {
			t.Errorf("its address was %s and became %s", was.Spec.ClusterIP, grown.Spec.ClusterIP)
		}
		c.Kubectl("patch", "service", "four", "-p", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
		answer(c, "four", "IPv4")
		reaches(c, "asker", at(grown.Spec.ClusterIPs[1], 80), false)
	})

	before := pods(c, "")
	c.Kill()
	for _, name := range []string{"asker", "friend"} {
		for _, p := range before {
			if p.Name == name {
				for _, ip := range podIPs(p) {
					if _, err := get(at(ip, 8080)); err != nil {
						t.Errorf("while Setpoint is dead: %v", err)
					}
				}
			}
		}
	}
	c.Up()
	for _, p := range before {
		now := pod(c, p.Name)
		if now.UID != p.UID || !slices.Equal(podIPs(now), podIPs(p)) || !slices.Equal(hostIPs(now), hostIPs(p)) || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s had %v, and has %v on %v, with %d restarts", p.Name, podIPs(p), podIPs(now), hostIPs(now), now.Status.ContainerStatuses[0].RestartCount)
		}
	}
	for name, want := range all {
		answer(c, name, want)
	}
	c.Apply(onePod("late", image, "", listens))
	ready(c, "late")
	if p := pod(c, "late"); families(podIPs(p)...) != "IPv4 IPv6" {
		t.Errorf("a pod made after it has %v", podIPs(p))
	}
	reaches(c, "late", "http://six/", true)
	c.Stop()
	c.Setpoint("down")
	gone(t, c.Dir)
}

// testDualPolicies: a policy holds for each family, and one that names a range
// of one family lets nothing of the other in.
func testDualPolicies(t *testing.T, c *harness.Cluster) {
	friend := pod(c, "friend")
	policy := func(from string) {
		c.Apply("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: guard}\nspec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [" + from + "], ports: [{port: 8080}]}]}\n")
	}
	dual := service(c, "prefer").Spec.ClusterIPs
	direct := podIPs(pods(c, "app=web")[0])
	expect := func(from string, four, six bool) {
		t.Helper()
		for i, want := range []bool{four, six} {
			reaches(c, from, at(dual[i], 80), want)
			reaches(c, from, at(direct[i], 8080), want)
		}
	}
	expect("asker", true, true)
	policy("{podSelector: {matchLabels: {app: friend}}}")
	expect("asker", false, false)
	expect("friend", true, true)
	policy("{ipBlock: {cidr: " + podIPs(friend)[1] + "/128}}")
	expect("friend", false, true)
	expect("asker", false, false)
	policy("{ipBlock: {cidr: 10.142.0.0/16}}")
	expect("friend", true, false)
	for _, p := range pods(c, "app=web") {
		if !p.Status.ContainerStatuses[0].Ready {
			t.Error("the node's probes do not come in")
		}
	}
	c.Kubectl("delete", "networkpolicy", "guard")
	expect("asker", true, true)
}

// TestIPv6: a cluster of IPv6 alone does what one of IPv4 does.
func TestIPv6(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t, "--cluster-cidr", "fd00:144::/56", "--service-cidr", "fd00:145::/112")
	c.Apply(onePod("web", image, "", "args: [serve, -grpc, ':9090'], livenessProbe: {grpc: {port: 9090}, periodSeconds: 1, timeoutSeconds: 20}, "+
		"startupProbe: {httpGet: {path: /healthy, port: 8080}, periodSeconds: 1, timeoutSeconds: 20}, "+listens) +
		onePod("loopback", image, "", `args: [serve, -http, "[::1]:8080"]`) + onePod("asker", image, "", listens) +
		onePod("host-network", image, "hostNetwork: true", `args: [serve, -http, ":18086"]`) +
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}\n")
	ready(c, "web", "loopback", "asker", "host-network")
	c.Apply(onePod("late", image, "", listens)) // knows the services of before by its environment
	ready(c, "late")
	p, s := pod(c, "web"), service(c, "web")
	if families(podIPs(p)...) != "IPv6" || families(hostIPs(p)...) != "IPv6" || families(s.Spec.ClusterIPs...) != "IPv6" || p.Status.PodIP != podIPs(p)[0] {
		t.Fatalf("pod %v on %v, service %v", podIPs(p), hostIPs(p), s.Spec.ClusterIPs)
	}
	if h := pod(c, "host-network"); !slices.Equal(podIPs(h), hostIPs(h)) {
		t.Errorf("a pod in the host's network has %v on %v", podIPs(h), hostIPs(h))
	}
	answersFrom(c, at(s.Spec.ClusterIP, 80), "web answers ["+hostIPs(p)[0]+"]:")
	answersFrom(c, at(hostIPs(p)[0], s.Spec.Ports[0].NodePort), "web answers")
	answersFrom(c, at(hostIPs(p)[0], 18086), "answers")
	reaches(c, "asker", at(p.Status.PodIP, 8080), true)
	reaches(c, "asker", "http://web/", true)
	names(c, "asker", "web.default.svc.cluster.local", s.Spec.ClusterIP)
	dns := c.Kubectl("get", "service", "kube-dns", "-n", "kube-system", "-o", "jsonpath={.spec.clusterIPs}")
	if want := `["fd00:145::a"]`; dns != want {
		t.Errorf("the servers of names are at %s, want %s", dns, want)
	}
	contains(t, "whom pods ask", sh(c, "asker", "cat /etc/resolv.conf"), "nameserver fd00:145::a\n")
	contains(t, "the environment", sh(c, "late", "env"), "WEB_SERVICE_HOST="+s.Spec.ClusterIP+"\n", "WEB_PORT=tcp://["+s.Spec.ClusterIP+"]:80\n", "KUBERNETES_SERVICE_HOST=fd00:145::1\n")
	contains(t, "the API", sh(c, "asker", "tool get -ca /var/run/secrets/kubernetes.io/serviceaccount/ca.crt https://[$KUBERNETES_SERVICE_HOST]/version"), "200", "v1.37")
	contains(t, "exec", sh(c, "web", "hostname"), "web")
	contains(t, "the hosts file", sh(c, "web", "cat /etc/hosts"), p.Status.PodIP+"\tweb\n")
	c.Kubectl("exec", "web", "--", "sh", "-c", "echo written >/proc/1/fd/1")
	contains(t, "logs", c.Kubectl("logs", "web"), "written")
	forwards := []string{"pod/web", "pod/asker"}
	if hosts, err := os.ReadFile("/etc/hosts"); err == nil && slices.ContainsFunc(strings.Split(string(hosts), "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 1 && f[0] == "::1" && slices.Contains(f[1:], "localhost")
	}) {
		// The runtime asks for localhost: where the machine does not know that
		// as ::1, it finds nobody who listens there only.
		forwards = append(forwards, "pod/loopback")
	}
	for _, target := range forwards {
		cmd, addr := forward(t, c, target)
		answersFrom(c, "http://"+addr+"/", strings.TrimPrefix(target, "pod/")+" answers")
		cmd.Process.Kill()
		cmd.Wait()
	}

	c.Kill()
	if _, err := get(at(s.Spec.ClusterIP, 80)); err != nil {
		t.Errorf("while Setpoint is dead: %v", err)
	}
	c.Up()
	if now := pod(c, "web"); now.UID != p.UID || now.Status.PodIP != p.Status.PodIP || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod became %+v", now.Status)
	}
	reaches(c, "asker", "http://web/", true)
}

// TestIPv6First: two nodes of a cluster whose primary family is IPv6, and which
// the second joins by IPv6.
func TestIPv6First(t *testing.T) {
	machine := harness.StartMachine(t)
	c := harness.Start(t, "--listen", "["+harness.HereIP6+"]:0", "--node-ip", harness.HereIP+","+harness.HereIP6, "--node-name", "first",
		"--cluster-cidr", "fd00:146::/56,10.146.0.0/16", "--service-cidr", "fd00:147::/112,10.147.0.0/16")
	dir := agentDir(t, machine)
	server := c.Kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	machine.Start("--data-dir", dir, "agent", "--server", server, "--token", joinToken(t, c), "--node-ip", harness.ThereIP6+","+harness.ThereIP, "--node-name", "second")
	c.Await("condition=Ready", "node/first", "node/second")
	archive := harness.Archive(t, "example.test/tool:1", harness.Tool(t))
	c.Setpoint("image", "import", archive)
	machine.Run(harness.Binary(t), "--data-dir", dir, "image", "import", archive)
	c.Apply(onePod("here", "example.test/tool:1", "nodeName: first", listens) + onePod("there", "example.test/tool:1", "nodeName: second", listens) +
		onePod("host", "example.test/tool:1", "nodeName: second, hostNetwork: true", `args: [serve, -http, ":18088"]`) +
		"apiVersion: v1\nkind: Service\nmetadata: {name: there}\nspec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: there}, ports: [{port: 80, targetPort: 8080}]}\n")
	ready(c, "here", "there", "host")
	here, there, s := pod(c, "here"), pod(c, "there"), service(c, "there")
	for what, got := range map[string][]string{"a pod": podIPs(there), "its host": hostIPs(there), "a service": s.Spec.ClusterIPs, "a pod in the host's network": podIPs(pod(c, "host"))} {
		if families(got...) != "IPv6 IPv4" {
			t.Fatalf("%s has %v", what, got)
		}
	}
	if !slices.Equal(hostIPs(there), []string{harness.ThereIP6, harness.ThereIP}) {
		t.Errorf("the second node has %v", hostIPs(there))
	}
	for i := range 2 {
		reaches(c, "here", at(podIPs(there)[i], 8080), true)
		reaches(c, "there", at(podIPs(here)[i], 8080), true)
		reaches(c, "here", at(s.Spec.ClusterIPs[i], 80), true)
		answersFrom(c, at(s.Spec.ClusterIPs[i], 80), "there answers")
		answersFrom(c, at(hostIPs(here)[i], s.Spec.Ports[0].NodePort), "there answers")
		answersFrom(c, at(hostIPs(there)[i], s.Spec.Ports[0].NodePort), "there answers")
		answersFrom(c, at(hostIPs(there)[i], 18088), "answers")
		contains(t, "a pod is asked by its own address", sh(c, "here", "tool get "+at(podIPs(there)[i], 8080)), "there answers "+net.JoinHostPort(podIPs(here)[i], ""))
	}
	names(c, "there", "there.default.svc.cluster.local", s.Spec.ClusterIPs...)
	contains(t, "the API from there", sh(c, "there", "tool get -ca /var/run/secrets/kubernetes.io/serviceaccount/ca.crt https://[$KUBERNETES_SERVICE_HOST]/version"), "200", "v1.37")
	if got := families(c.Kubectl("get", "endpointslices", "kubernetes", "-o", "jsonpath={.endpoints[*].addresses[*]}")); got != "IPv6" {
		t.Errorf("the API server is at an address of %s", got)
	}
}

// TestSecondFamily: a cluster of IPv4 is given IPv6 by a later start. What runs
// runs on as it is; services may have both at once, and the node's pods once the
// node has been made anew.
func TestSecondFamily(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t, "--cluster-cidr", "10.148.0.0/16", "--service-cidr", "10.149.0.0/16")
	c.Apply(onePod("web", image, "", listens) + onePod("asker", image, "", listens) +
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n")
	ready(c, "web", "asker")
	before := pod(c, "web")
	c.Stop()
	var up *harness.Process
	start := func(args ...string) {
		t.Helper()
		up = harness.StartProcess(t, append([]string{"--data-dir", c.Dir, "up"}, args...)...)
		up.WaitFor("ready in ")
	}
	start("--cluster-cidr", "10.148.0.0/16,fd00:148::/56", "--service-cidr", "10.149.0.0/16,fd00:149::/112")
	c.Kubectl("patch", "service", "web", "-p", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)
	ips := service(c, "web").Spec.ClusterIPs
	if families(ips...) != "IPv4 IPv6" {
		t.Fatalf("the service has %v", ips)
	}
	answersFrom(c, at(ips[0], 80), "web answers")
	if p := pod(c, "web"); p.UID != before.UID || !slices.Equal(podIPs(p), podIPs(before)) || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a pod of before is now %+v", p.Status)
	}
	names(c, "asker", "web.default.svc.cluster.local", ips...)

	c.Kubectl("delete", "node", "--all")
	up.Stop()
	start()
	c.Kubectl("delete", "pod", "--all")
	c.Apply(onePod("web", image, "", listens) + onePod("asker", image, "", listens))
	ready(c, "web", "asker")
	if p := pod(c, "web"); families(podIPs(p)...) != "IPv4 IPv6" || families(hostIPs(p)...) != "IPv4 IPv6" {
		t.Errorf("a pod has %v on %v", podIPs(p), hostIPs(p))
	}
	for _, ip := range ips {
		answersFrom(c, at(ip, 80), "web answers")
		reaches(c, "asker", at(ip, 80), true)
	}
	up.Stop()
}
