package cli

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// Nodes stand with their reason, the reason of most nodes first; of many nodes
// only some are named.
func TestPrintWhy(t *testing.T) {
	show := func(why cluster.Why) string {
		var out bytes.Buffer
		printWhy(&out, "web-0", &why)
		return out.String()
	}
	if got, want := show(cluster.Why{Node: "a"}), "pod web-0 is on node a\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	why := cluster.Why{Message: "0/14 nodes are available.", Refused: map[string][]string{"b": {"Too many pods", "Insufficient cpu"}}, Fits: []string{"c"}, Helps: []string{"a node"}}
	for i := range 12 {
		why.Refused[fmt.Sprintf("n%02d", i)] = []string{"Insufficient cpu"}
	}
	want := `pod web-0 is on no node: 0/14 nodes are available.

what keeps it from each node now:
  Insufficient cpu
    n00 n01 n02 n03 n04 n05 n06 n07 n08 n09 and 2 more
  Too many pods, Insufficient cpu
    b
  nothing: it fits, and is about to be placed
    c

it is tried again when one of these changes:
  a node
`
	if got := show(why); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
