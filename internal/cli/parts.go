package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

func newServer(c *common) *cobra.Command {
	var o cluster.Options
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the API server and its store alone",
		Long: `Run the API server and its store, without loops, scheduler or node. The
kubeconfigs for the other parts lie in DATA/kubeconfigs, the token for agents in
DATA/token.`,
		Example: `  setpoint server --listen 0.0.0.0:6443
  setpoint controllers --kubeconfig DATA/kubeconfigs/controllers.kubeconfig
  setpoint scheduler --kubeconfig DATA/kubeconfigs/scheduler.kubeconfig`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.DataDir, o.Logger = c.dataDir, log
			o.Ready = func(i cluster.Info) { announce(cmd.OutOrStdout(), c, i) }
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			return cluster.RunServer(cmd.Context(), o)
		},
	}
	clusterFlags(cmd.Flags(), &o)
	return cmd
}

// part makes a command that needs nothing but a kubeconfig.
func part(c *common, use, short, long string, run func(context.Context, cluster.Options, string) error) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if kubeconfig == "" {
				return usageError{errors.New("--kubeconfig is required")}
			}
			return run(cmd.Context(), cluster.Options{DataDir: c.dataDir, Logger: log}, kubeconfig)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server, and as whom")
	return cmd
}

func newControllers(c *common) *cobra.Command {
	return part(c, "controllers", "Run the loops alone, over the network",
		"Run every built-in loop but the scheduler, talking to the API server over the\nnetwork. Two copies may run at once: they converge to the same end.", cluster.RunControllers)
}

func newScheduler(c *common) *cobra.Command {
	return part(c, "scheduler", "Run the scheduler alone, over the network",
		"Run the scheduler, talking to the API server over the network. Two copies may\nrun at once: the API server takes one binding for a pod and refuses the other.", cluster.RunScheduler)
}

func newSimnodes(c *common) *cobra.Command {
	var n int
	cmd := part(c, "simnodes", "Run simulated nodes alone, over the network",
		"Run simulated nodes, whose pods go through their phases without containers. They\nare many nodes in one, so they need the administrator's kubeconfig.",
		func(ctx context.Context, o cluster.Options, kubeconfig string) error {
			return cluster.RunSimulated(ctx, o, kubeconfig, n)
		})
	cmd.Flags().IntVar(&n, "count", 1, "how many nodes")
	return cmd
}

func newAgent(c *common) *cobra.Command {
	var o cluster.Options
	var join cluster.JoinOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Make this machine a node of a cluster elsewhere",
		Long: `Make this machine a node of a cluster whose API server runs elsewhere. The first
time it joins with the token that the server wrote to DATA/token; from then on
its own certificate lies in its data folder.`,
		Example: `  setpoint agent --server https://10.0.0.1:6443 --token "$(cat token)"`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.DataDir, o.Logger = c.dataDir, log
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			if join.Server == "" {
				return usageError{errors.New("--server is required")}
			}
			return cluster.RunAgent(cmd.Context(), o, join)
		},
	}
	cmd.Flags().StringVar(&join.Server, "server", "", "https://HOST:PORT of the API server")
	cmd.Flags().StringVar(&join.Token, "token", "", "token to join with; needed the first time")
	nodeFlags(cmd.Flags(), &o)
	return cmd
}
