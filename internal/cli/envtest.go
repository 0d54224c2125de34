package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/containerd"
	"github.com/setpoint-project/setpoint/internal/envtest"
)

func newEnvtest() *cobra.Command {
	var withControllers bool
	cmd := &cobra.Command{
		Use:   "envtest DIR",
		Short: "Make a folder from which operators' test suites start Setpoint",
		Long: `Fill a folder with the programs that controller-runtime's envtest starts:
kube-apiserver, etcd and kubectl. A test suite that is told of it by
KUBEBUILDER_ASSETS runs against Setpoint, unchanged. Each API server keeps its
objects in memory and is there in a tenth of a second.

As in any envtest there is an API server and nothing else, unless the loops are
wanted: then owners' children are collected, namespaces end, and so on.`,
		Example: `  setpoint envtest ./assets
  KUBEBUILDER_ASSETS=$PWD/assets go test ./...`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			dir, err := filepath.Abs(a[0])
			if err != nil {
				return err
			}
			o := envtest.FillOptions{WithControllers: withControllers}
			if o.Setpoint, err = os.Executable(); err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if o.Kubectl, err = containerd.UnpackKubectl(dir); err != nil {
				return err
			}
			if err := envtest.Fill(dir, o); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "next: KUBEBUILDER_ASSETS=%s go test ./...\n", shellWord(dir))
			return nil
		},
	}
	cmd.Flags().BoolVar(&withControllers, "with-controllers", false, "turn the loops beside each API server")
	cmd.AddCommand(
		envtestProgram("kube-apiserver", envtest.RunAPIServer),
		envtestProgram("etcd", envtest.RunEtcd),
	)
	return cmd
}

// envtestProgram is what a launcher in the folder starts. It is hidden: its
// flags are another program's.
func envtestProgram(name string, run func(ctx context.Context, args []string, out, errOut io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Act as " + name + ", as the folder's launcher wants it",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}
