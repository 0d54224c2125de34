package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestDNS: pods find services by name, with the resolvers of a C library
// (busybox) and of Go, whatever becomes of Setpoint meanwhile.
func TestDNS(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("tool:1", harness.Tool(t))
	c := harness.Start(t)
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.Apply(onePod("web", image, "", "") +
		onePod("db-a", image, "hostname: a, subdomain: db", "") + onePod("db-b", image, "hostname: b, subdomain: db", "") +
		onePod("asker", image, "", "") +
		onePod("host", image, "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet", `args: [serve, -http, ":18081"]`) +
		onePod("own", image, `dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53], searches: [example.test], options: [{name: ndots, value: "2"}]}`, "") +
		onePod("steady", image, `volumes: [{name: log, hostPath: {path: `+log+`}}]`,
			`volumeMounts: [{name: log, mountPath: /log}], command: [sh, -c, "while true; do if tool get http://web/ >/dev/null 2>&1; then echo ok; else echo failed; fi >>/log; sleep 0.1; done"]`) + `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: web.default.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {set: db}, ports: [{name: sql, port: 8080}]}
`)
	for _, name := range []string{"db-a", "db-b"} {
		c.Kubectl("label", "pod", name, "set=db")
	}
	ready(c, "web", "db-a", "db-b", "asker", "host", "own", "steady")
	web := clusterIP(c, "web")
	try := func(name, script string) string { // its output, whatever it ends with
		out, _ := c.Try("exec", name, "-c", "a", "--", "sh", "-c", script)
		return out
	}
	answers := func(name, script string, want ...string) {
		t.Helper()
		c.Eventually(time.Minute, name+": "+script, func() error {
			out := try(name, script)
			for _, w := range want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("got %q, want %q in it", out, w)
				}
			}
			return nil
		})
	}
	at := c.Kubectl("get", "service", "kube-dns", "-n", "kube-system", "-o", "jsonpath={.spec.clusterIP} {.spec.ports[*].name}")
	ip, err := netip.ParseAddr(strings.Fields(at)[0])
	if err != nil || ip.As4()[3] != 10 || !strings.HasSuffix(at, " dns dns-tcp") {
		t.Errorf("kube-dns is at %s", at)
	}
	contains(t, "ClusterFirst", sh(c, "asker", "cat /etc/resolv.conf"), "nameserver "+ip.String(), "search default.svc.cluster.local svc.cluster.local cluster.local", "ndots:5")
	contains(t, "None", sh(c, "own", "cat /etc/resolv.conf"), "nameserver 192.0.2.53", "search example.test", "ndots:2")

	for _, name := range []string{"web", "web.default", "web.default.svc", "web.default.svc.cluster.local", "web.default.svc.cluster.local.", "alias"} {
		answers("asker", "tool get http://"+name+"/", "200", "web answers")
	}
	answers("host", "tool get http://web/", "200", "web answers")
	answers("asker", "nslookup web.default.svc.cluster.local", web)
	for _, name := range []string{"a", "b"} {
		addr := pod(c, "db-"+name).Status.PodIP
		answers("asker", "nslookup db.default.svc.cluster.local", addr)
		answers("asker", "nslookup "+name+".db.default.svc.cluster.local", addr)
		answers("asker", "nslookup "+addr, name+".db.default.svc.cluster.local")
	}
	answers("asker", "nslookup "+web, "web.default.svc.cluster.local")
	answers("asker", "nslookup nothing.default.svc.cluster.local", "NXDOMAIN")

	// What the service selects no more has no name.
	c.Kubectl("patch", "service", "db", "-p", `{"spec":{"selector":{"app":"db-b"}}}`)
	answers("asker", "nslookup a.db.default.svc.cluster.local", "NXDOMAIN")
	c.Kubectl("patch", "service", "db", "-p", `{"spec":{"selector":{"app":null,"set":"db"}}}`)

	lines := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	steady := func(what string) {
		t.Helper()
		before := len(lines())
		c.Eventually(time.Minute, what, func() error {
			if n := strings.Count(lines()[before:], "\n"); n < 20 {
				return fmt.Errorf("asked %d times", n)
			}
			return nil
		})
		if since := lines()[before:]; strings.Contains(since, "failed") {
			t.Errorf("%s: some failed: %s", what, since)
		}
	}
	steady("while all is well")
	c.Kill()
	steady("while Setpoint is dead")
	c.Up()
	steady("once it is back")
	c.Kubectl("create", "service", "externalname", "later", "--external-name", "web.default.svc.cluster.local")
	answers("asker", "tool get http://later/", "200", "web answers")
	c.Kubectl("delete", "service", "later")
	answers("asker", "nslookup later.default.svc.cluster.local", "NXDOMAIN")
}
