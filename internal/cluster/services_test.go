package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares lines with a file that a person has read.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	has, wants := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	if len(has) != len(wants) {
		t.Errorf("%d lines, want %d", len(has), len(wants))
	}
	for i := range min(len(has), len(wants)) {
		if has[i] != wants[i] {
			t.Errorf("line %d of %s:\ngot  %s\nwant %s", i+1, path, has[i], wants[i])
		}
	}
}

// stacks are clusters of one family and of two.
var stacks = []struct{ name, pods, services string }{
	{"4", "10.42.0.0/16", "10.43.0.0/16"},
	{"6", "fd00:42::/56", "fd00:43::/112"},
	{"46", "10.42.0.0/16,fd00:42::/56", "10.43.0.0/16,fd00:43::/112"},
	{"64", "fd00:42::/56,10.42.0.0/16", "fd00:43::/112,10.43.0.0/16"},
}

// services serves those of one cluster over the wire.
type services struct {
	t  *testing.T
	as func(who, method, path, body string) (int, string)
}

func serveServices(t *testing.T, pods, ranges string) *services {
	t.Helper()
	var o Options
	for text, at := range map[string]*Prefixes{pods: &o.ClusterCIDRs, ranges: &o.ServiceCIDRs} {
		if err := at.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	return &services{t, serveWith(t, o)}
}

// write sends a request and returns the service, or what was wrong with it.
func (s *services) write(method, name, body string) (*corev1.Service, string) {
	s.t.Helper()
	path := "/api/v1/namespaces/default/services"
	if method != "POST" {
		path += "/" + name
	}
	code, answer := s.as("admin", method, path, body)
	if code >= 400 {
		var status metav1.Status
		if err := json.Unmarshal([]byte(answer), &status); err != nil {
			s.t.Fatalf("%s %s: %s", method, path, answer)
		}
		_, wrong, _ := strings.Cut(status.Message, " is invalid: ")
		return nil, fmt.Sprint(code, " ", wrong)
	}
	svc := &corev1.Service{}
	if err := json.Unmarshal([]byte(answer), svc); err != nil {
		s.t.Fatal(err)
	}
	return svc, ""
}

func (s *services) delete(name string) {
	s.t.Helper()
	if code, answer := s.as("admin", "DELETE", "/api/v1/namespaces/default/services/"+name, ""); code != 200 {
		s.t.Fatal(answer)
	}
}

// names gives addresses names that are the same each time: 4a is the first of
// IPv4 that it was asked for, 6b the second of IPv6.
type names map[string]string

func (n names) of(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if n[ip] == "" {
		family := "4"
		if addr.Is6() {
			family = "6"
		}
		next := 'a'
		for _, name := range n {
			if strings.HasPrefix(name, family) {
				next++
			}
		}
		n[ip] = family + string(next)
	}
	return n[ip]
}

// plain puts names in the place of addresses in a message.
func (n names) plain(text string) string {
	for ip, name := range n {
		text = strings.ReplaceAll(text, `"`+ip+`"`, name)
	}
	return text
}

func (n names) line(svc *corev1.Service) string {
	var families, ips []string
	for _, f := range svc.Spec.IPFamilies {
		families = append(families, string(f[3]))
	}
	for _, ip := range svc.Spec.ClusterIPs {
		ips = append(ips, n.of(ip))
	}
	policy := "none"
	if svc.Spec.IPFamilyPolicy != nil {
		policy = strings.TrimSuffix(string(*svc.Spec.IPFamilyPolicy), "Stack")
	}
	line := fmt.Sprintf("%s families=%s addresses=%s", policy, strings.Join(families, ""), strings.Join(ips, ","))
	if len(ips) > 0 && svc.Spec.ClusterIP != svc.Spec.ClusterIPs[0] || len(ips) == 0 && svc.Spec.ClusterIP != "" {
		line += " but clusterIP=" + svc.Spec.ClusterIP
	}
	return line
}

// TestServiceFamilies: which families, policy and addresses a new service gets
// from each way of asking, on each kind of cluster.
func TestServiceFamilies(t *testing.T) {
	var lines strings.Builder
	for _, stack := range stacks {
		s := serveServices(t, stack.pods, stack.services)
		for _, kind := range []struct{ name, spec string }{
			{"ClusterIP", `"selector": {"a": "b"}`},
			{"headless", `"selector": {"a": "b"}, "clusterIP": "None"`},
			{"headless, no selector", `"clusterIP": "None"`},
			{"ExternalName", `"type": "ExternalName", "externalName": "example.com"`},
		} {
			for _, policy := range []string{"", "SingleStack", "PreferDualStack", "RequireDualStack"} {
				for _, families := range []string{"", `"IPv4"`, `"IPv6"`, `"IPv4","IPv6"`, `"IPv6","IPv4"`} {
					spec := kind.spec + `, "ports": [{"port": 80}]`
					ask := kind.name
					if policy != "" {
						spec += `, "ipFamilyPolicy": "` + policy + `"`
						ask += " " + strings.TrimSuffix(policy, "Stack")
					}
					if families != "" {
						spec += `, "ipFamilies": [` + families + `]`
						ask += " " + strings.NewReplacer(`"`, "", "IPv", "", ",", "").Replace(families)
					}
					svc, wrong := s.write("POST", "x", `{"metadata": {"name": "x"}, "spec": {`+spec+`}}`)
					if wrong != "" {
						fmt.Fprintf(&lines, "cluster %s: %s: %s\n", stack.name, ask, wrong)
						continue
					}
					fmt.Fprintf(&lines, "cluster %s: %s: %s\n", stack.name, ask, names{}.line(svc))
					s.delete("x")
				}
			}
		}
	}
	golden(t, "services.txt", lines.String())
}

// TestServiceFamiliesChange: what becomes of the families and addresses of a
// service by each kind of update.
func TestServiceFamiliesChange(t *testing.T) {
	starts := []struct{ name, spec string }{
		{"Single 4", `"ipFamilyPolicy": "SingleStack"`},
		{"Prefer 46", `"ipFamilyPolicy": "PreferDualStack"`},
		{"Require 64", `"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]`},
		{"headless Single 4", `"clusterIP": "None"`},
		{"headless Require 46", `"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"`},
		{"ExternalName", `"type": "ExternalName", "externalName": "example.com"`},
	}
	// $1 and $2 are the addresses that the service has.
	changes := []string{
		`{"metadata": {"labels": {"a": "b"}}}`,
		`{"spec": {"ipFamilyPolicy": "SingleStack"}}`,
		`{"spec": {"ipFamilyPolicy": "PreferDualStack"}}`,
		`{"spec": {"ipFamilyPolicy": "RequireDualStack"}}`,
		`{"spec": {"ipFamilyPolicy": null, "ipFamilies": null}}`,
		`{"spec": {"ipFamilyPolicy": null, "ipFamilies": null, "clusterIP": null, "clusterIPs": null}}`,
		`{"spec": {"ipFamilies": ["IPv4"]}}`,
		`{"spec": {"ipFamilies": ["IPv6"]}}`,
		`{"spec": {"ipFamilies": ["IPv4", "IPv6"]}}`,
		`{"spec": {"ipFamilies": ["IPv6", "IPv4"]}}`,
		`{"spec": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}}`,
		`{"spec": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}}`,
		`{"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}}`,
		`{"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}}`,
		`{"spec": {"ipFamilyPolicy": "SingleStack", "clusterIPs": ["$1"]}}`,
		`{"spec": {"ipFamilyPolicy": "SingleStack", "clusterIP": "$2", "clusterIPs": ["$2"]}}`,
		`{"spec": {"clusterIPs": ["$1"]}}`,
		`{"spec": {"clusterIPs": ["$1"], "ipFamilies": ["IPv4"]}}`,
		`{"spec": {"ipFamilyPolicy": "PreferDualStack", "clusterIPs": ["$1", "fd00:43::77"]}}`,
		`{"spec": {"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["$1", "fd00:99::77"]}}`,
		`{"spec": {"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["$1", "fd00:43::1", "10.43.0.99"]}}`,
		`{"spec": {"clusterIP": ""}}`,
		`{"spec": {"clusterIP": "10.43.0.77"}}`,
		`{"spec": {"clusterIP": "None"}}`,
		`{"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}`,
		`{"spec": {"type": "NodePort"}}`,
		`{"spec": {"type": "ClusterIP"}}`,
		`{"spec": {"type": "ClusterIP", "externalName": null, "ipFamilyPolicy": "PreferDualStack"}}`,
		`{"spec": {"type": "ExternalName", "externalName": "example.com"}}`,
		`{"spec": {"selector": null}}`,
	}
	s := serveServices(t, stacks[2].pods, stacks[2].services)
	var lines strings.Builder
	for _, start := range starts {
		for _, change := range changes {
			svc, wrong := s.write("POST", "x", `{"metadata": {"name": "x"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}], `+start.spec+`}}`)
			if wrong != "" {
				t.Fatalf("%s: %s", start.name, wrong)
			}
			names := names{}
			names.line(svc)
			body := change
			for i, at := range []string{"$1", "$2"} {
				if i < len(svc.Spec.ClusterIPs) {
					body = strings.ReplaceAll(body, at, svc.Spec.ClusterIPs[i])
				}
			}
			got, wrong := s.write("PATCH", "x", body)
			if wrong == "" {
				wrong = names.line(got)
			}
			fmt.Fprintf(&lines, "%s: %s: %s\n", start.name, change, names.plain(wrong))
			s.delete("x")
		}
	}
	golden(t, "services-change.txt", lines.String())
}
