package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/version"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of the API it serves",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Setpoint   string `json:"setpoint"`
				Commit     string `json:"commit"`
				Kubernetes string `json:"kubernetes"`
				Go         string `json:"go"`
				Platform   string `json:"platform"`
			}{version.Setpoint, version.Revision(), version.Kubernetes, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			switch output {
			case "":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "setpoint %s (%s), Kubernetes API %s, %s %s\n", v.Setpoint, v.Commit, v.Kubernetes, v.Go, v.Platform)
				return err
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			return usageError{fmt.Errorf("--output %q: must be json", output)}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for a line to read")
	return cmd
}
