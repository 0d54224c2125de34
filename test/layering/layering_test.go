// Package layering holds the rules of who may import whom, each with its
// reason, and nothing else.
package layering

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/setpoint-project/setpoint"

// rule forbids the packages that from names to import, directly or by way of
// others, what not names, or what lies below it (with a "/" at the end: only
// what lies below).
type rule struct {
	from   string
	except string // a package below from that may
	not    []string
	why    string
}

var rules = []rule{
	{from: "/...", not: []string{"k8s.io/kubernetes"}, why: "it is not a library"},
	{from: "/cmd/setpoint", not: []string{"k8s.io/apiserver/pkg/server", "k8s.io/apiserver/pkg/registry", "k8s.io/apiserver/pkg/storage", "k8s.io/apiserver/pkg/endpoints/handlers"},
		why: "the front door and the store are what this project exists to do better"},
	{from: "/cmd/setpoint", not: []string{"k8s.io/kubectl/pkg/cmd", "k8s.io/client-go/kubernetes", "k8s.io/cli-runtime", "github.com/containerd/containerd/v2"},
		why: "every start pays for what the big binary links; kubectl and the runtime are programs of their own"},
	{from: "/internal/controllers/...", except: "/internal/controllers/controllertest", not: []string{module + "/internal/store", module + "/internal/apiserver", module + "/internal/kubelet", module + "/internal/scheduler"},
		why: "a loop uses only what any client can (laws 1, 2 and 6)"},
	{from: "/internal/scheduler/...", not: []string{module + "/internal/store", module + "/internal/apiserver", module + "/internal/kubelet", module + "/internal/controllers/"},
		why: "the scheduler is one more loop (law 2)"},
	{from: "/internal/kubelet/...", not: []string{module + "/internal/store", module + "/internal/apiserver", module + "/internal/controllers", module + "/internal/scheduler", module + "/internal/containerd"},
		why: "the kubelet knows the API and CRI, no other part"},
	{from: "/internal/network/...", not: []string{module + "/internal/store", module + "/internal/apiserver", module + "/internal/kubelet"},
		why: "the network follows the API like any loop"},
	{from: "/cmd/dns", not: []string{"k8s.io/", module + "/internal/client", module + "/loop"},
		why: "every node runs one beside Setpoint: it knows names, not the API, and stays small"},
	{from: "/internal/simnode/...", not: []string{module + "/internal/store", module + "/internal/apiserver", module + "/internal/kubelet"},
		why: "simulated nodes are clients"},
	{from: "/internal/store/...", not: []string{module + "/internal/apiserver", module + "/internal/kinds", module + "/internal/client", "k8s.io/"},
		why: "the store does not look into values"},
	{from: "/internal/kinds/...", not: []string{module + "/internal/apiserver", module + "/internal/store", module + "/internal/client"},
		why: "a kind is a description without state"},
	{from: "/internal/client/...", not: []string{module + "/internal/apiserver", module + "/internal/store"},
		why: "the client is what both sides of the front door share"},
	{from: "/loop/...", not: []string{module + "/internal"}, why: "loop is public: a user's loops import it"},
}

func TestLayering(t *testing.T) {
	for _, r := range rules {
		out, err := exec.Command("go", "list", "-f", `{{range .Deps}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, module+r.from).CombinedOutput()
		if err != nil {
			t.Fatalf("go list %s: %v\n%s", r.from, err, out)
		}
		if len(out) == 0 {
			t.Errorf("%s: no package imports anything; is the rule's path right?", r.from)
		}
		for line := range strings.Lines(string(out)) {
			from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			from = strings.TrimPrefix(from, module)
			if from == r.except {
				continue
			}
			for _, not := range r.not {
				if to == not || strings.HasPrefix(to, strings.TrimSuffix(not, "/")+"/") {
					t.Errorf("%s imports %s: %s", from, to, r.why)
				}
			}
		}
	}
}
