package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

func newWhy(c *common) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "why POD",
		Short: "Tell why a pod is on no node, node by node",
		Long: `Tell why a pod is on no node: for each node what keeps the pod from it, as the
scheduler sees it now, and which changes would make it try again.`,
		Example: `  setpoint why web-0
  setpoint why web-0 --namespace shop`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, pods []string) error {
			a, err := openAPI(c.dataDir)
			if err != nil {
				return err
			}
			var why cluster.Why
			query := url.Values{"namespace": {namespace}, "pod": {pods[0]}}
			if err := a.do(cmd.Context(), http.MethodGet, cluster.WhyPath+"?"+query.Encode(), "", nil, &why); err != nil {
				return err
			}
			printWhy(cmd.OutOrStdout(), pods[0], &why)
			return nil
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "`NAMESPACE` of the pod")
	return cmd
}

// shownNodes is how many names stand beside a reason.
const shownNodes = 10

// printWhy gathers the nodes of each reason, the most first.
func printWhy(w io.Writer, pod string, why *cluster.Why) {
	if why.Node != "" {
		fmt.Fprintf(w, "pod %s is on node %s\n", pod, why.Node)
		return
	}
	fmt.Fprintf(w, "pod %s is on no node", pod)
	if why.Message != "" {
		fmt.Fprintf(w, ": %s", why.Message)
	}
	fmt.Fprintln(w)
	by := map[string][]string{}
	for node, reasons := range why.Refused {
		reason := strings.Join(reasons, ", ")
		by[reason] = append(by[reason], node)
	}
	if len(why.Fits) > 0 {
		by["nothing: it fits, and is about to be placed"] = why.Fits
	}
	reasons := make([]string, 0, len(by))
	for reason, nodes := range by {
		slices.Sort(nodes)
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if d := len(by[b]) - len(by[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(reasons) > 0 {
		fmt.Fprintf(w, "\nwhat keeps it from each node now:\n")
	}
	for _, reason := range reasons {
		nodes := by[reason]
		more := ""
		if len(nodes) > shownNodes {
			more = fmt.Sprintf(" and %d more", len(nodes)-shownNodes)
			nodes = nodes[:shownNodes]
		}
		fmt.Fprintf(w, "  %s\n    %s%s\n", reason, strings.Join(nodes, " "), more)
	}
	if len(why.Helps) > 0 {
		fmt.Fprintf(w, "\nit is tried again when one of these changes:\n")
	}
	for _, what := range why.Helps {
		fmt.Fprintf(w, "  %s\n", what)
	}
}
