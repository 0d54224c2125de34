package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// report is what status prints, in JSON under these names.
type report struct {
	Ready      bool           `json:"ready"`
	URL        string         `json:"url"`
	DataDir    string         `json:"dataDir"`
	Kubeconfig string         `json:"kubeconfig"`
	PID        int            `json:"pid,omitempty"`
	Agent      string         `json:"agent,omitempty"` // this machine's node name, when the cluster is elsewhere
	Why        string         `json:"why,omitempty"`   // it is not ready
	Nodes      []nodeLine     `json:"nodes"`
	Pods       map[string]int `json:"pods"` // by phase
	Gaps       []cluster.Gap  `json:"gaps"`
}

type nodeLine struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Why   string `json:"why,omitempty"` // it is not ready
}

func newStatus(c *common) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell what runs, and which loop has not closed which gap",
		Long: `Tell whether the cluster answers, its nodes and pods, and every gap that is open:
which loop has not closed it, what it waits for, and since when. The exit status
is 0 when the API server is ready.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("--output %q: must be json", output)}
			}
			r, err := readStatus(cmd.Context(), c.dataDir)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(r)
			} else {
				err = r.print(cmd.OutOrStdout(), c.call())
			}
			if err == nil && !r.Ready {
				return exitCode(1)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for text to read")
	return cmd
}

func readStatus(ctx context.Context, dataDir string) (*report, error) {
	state, err := cluster.LoadState(dataDir)
	if err != nil {
		return nil, err
	}
	if state.Server != "" {
		return agentStatus(dataDir, state), nil
	}
	r := &report{DataDir: dataDir, Kubeconfig: cluster.AdminKubeconfig(dataDir), URL: "https://" + state.Listen, PID: state.PID, Pods: map[string]int{}}
	a, err := openAPI(dataDir)
	if err != nil {
		return nil, err
	}
	r.URL = a.base
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := a.do(ctx, http.MethodGet, "/readyz", "", nil, nil); err != nil {
		r.Why, r.PID = err.Error(), 0
		return r, nil
	}
	r.Ready = true
	var nodes corev1.NodeList
	if err := a.do(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		line := nodeLine{Name: n.Name, Why: "its kubelet has not reported yet"}
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady {
				line.Ready, line.Why = cond.Status == corev1.ConditionTrue, cond.Message
			}
		}
		if line.Ready {
			line.Why = ""
		}
		r.Nodes = append(r.Nodes, line)
	}
	var pods corev1.PodList
	if err := a.do(ctx, http.MethodGet, "/api/v1/pods", "", nil, &pods); err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		r.Pods[string(p.Status.Phase)]++
	}
	return r, a.do(ctx, http.MethodGet, cluster.GapsPath, "", nil, &r.Gaps)
}

// agentStatus is what an agent's data folder tells. All else is told where the
// API server runs.
func agentStatus(dataDir string, state *cluster.State) *report {
	r := &report{DataDir: dataDir, URL: state.Server, Agent: state.Node}
	if r.PID, r.Ready = cluster.Running(dataDir); !r.Ready {
		r.Why = "no process has " + dataDir
	}
	return r
}

// most is how many nodes that are not ready are shown one by one.
const most = 5

// printUnready says why some nodes are not ready.
func (r *report) printUnready(w io.Writer, unready int) {
	shown := 0
	for _, n := range r.Nodes {
		if n.Ready {
			continue
		}
		if shown++; shown > most {
			fmt.Fprintf(w, "           and %d more\n", unready-most)
			return
		}
		fmt.Fprintf(w, "           %s is not: %s\n", n.Name, n.Why)
	}
}

func (r *report) print(w io.Writer, call string) error {
	if r.Agent != "" {
		fmt.Fprintf(w, "agent      node %s of %s\n", r.Agent, r.URL)
		fmt.Fprintf(w, "data       %s\n", r.DataDir)
		if r.Ready {
			fmt.Fprintf(w, "runs       process %d; its gaps are told where the API server runs\n", r.PID)
		} else {
			fmt.Fprintf(w, "not running: start it with: %s agent\n", call)
		}
		return nil
	}
	if !r.Ready {
		fmt.Fprintf(w, "not running: %s\nstart it with: %s up\n", r.Why, call)
		return nil
	}
	fmt.Fprintf(w, "ready      %s (process %d)\n", r.URL, r.PID)
	fmt.Fprintf(w, "data       %s\n", r.DataDir)
	fmt.Fprintf(w, "kubeconfig %s\n", r.Kubeconfig)
	ready := 0
	for _, n := range r.Nodes {
		if n.Ready {
			ready++
		}
	}
	fmt.Fprintf(w, "nodes      %d, %d ready\n", len(r.Nodes), ready)
	r.printUnready(w, len(r.Nodes)-ready)
	total := 0
	for _, n := range r.Pods {
		total += n
	}
	fmt.Fprintf(w, "pods       %d", total)
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
		if n := r.Pods[string(phase)]; n > 0 {
			fmt.Fprintf(w, ", %d %s", n, phase)
		}
	}
	fmt.Fprintln(w)
	if len(r.Gaps) == 0 {
		fmt.Fprintln(w, "gaps       none: every loop has closed what it saw")
		return nil
	}
	fmt.Fprintf(w, "gaps       %d open\n\n", len(r.Gaps))
	alone := slices.ContainsFunc(r.Gaps, func(g cluster.Gap) bool { return g.Part != "" })
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(part string, cells ...string) {
		if alone { // else there is only one process
			cells = append([]string{part}, cells...)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	row("PART", "LOOP", "OBJECT", "STATE", "SINCE", "WAITS FOR", "WHY")
	for _, g := range r.Gaps {
		row(g.Part, g.Loop, g.Key, g.State, duration.HumanDuration(time.Since(g.Since)), g.On, g.Reason)
	}
	return tw.Flush()
}
