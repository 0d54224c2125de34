package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

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
DATA/token. When the disk fails it ends with exit status 3.`,
		Example: `  setpoint server --listen 0.0.0.0:6443
  setpoint controllers        # on this machine; elsewhere with --kubeconfig
  setpoint scheduler`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.DataDir, o.Logger, o.Tell, o.Command = c.dataDir, log, teller(cmd), true
			o.Ready = func(i cluster.Info) { announce(cmd.OutOrStdout(), c, i) }
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			tendHeap()
			go restHeap(cmd.Context())
			return cluster.RunServer(cmd.Context(), o)
		},
	}
	clusterFlags(cmd.Flags(), &o)
	return cmd
}

// part makes a command that needs nothing but a kubeconfig: that of as, unless
// told otherwise.
func part(c *common, use, as, short, long string, run func(context.Context, cluster.Options, string) error) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if kubeconfig == "" {
				kubeconfig = cluster.PartKubeconfig(c.dataDir, as)
				if _, err := os.Stat(kubeconfig); err != nil {
					return usageError{fmt.Errorf("--kubeconfig is required: there is no %s", kubeconfig)}
				}
			}
			return run(cmd.Context(), cluster.Options{DataDir: c.dataDir, Logger: log}, kubeconfig)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`FILE` that tells how to reach the API server, and as whom (default: DATA/kubeconfigs/"+as+".kubeconfig)")
	return cmd
}

func newControllers(c *common) *cobra.Command {
	return part(c, "controllers", "controllers", "Run the loops alone, over the network",
		"Run every built-in loop but the scheduler, talking to the API server over the\nnetwork. Two copies may run at once: they converge to the same end.\nCertificates and token Secrets are signed only where the keys of the cluster lie\nin DATA/pki: on the server's machine.", cluster.RunControllers)
}

func newScheduler(c *common) *cobra.Command {
	var config string
	cmd := part(c, "scheduler", "scheduler", "Run the scheduler alone, over the network",
		"Run the scheduler, talking to the API server over the network. Two copies may\nrun at once: the API server takes one binding for a pod and refuses the other.",
		func(ctx context.Context, o cluster.Options, kubeconfig string) error {
			o.SchedulerConfig = config
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			return cluster.RunScheduler(ctx, o, kubeconfig)
		})
	schedulerFlag(cmd.Flags(), &config)
	return cmd
}

func newSimnodes(c *common) *cobra.Command {
	var n int
	cmd := part(c, "simnodes", "admin", "Run simulated nodes alone, over the network",
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
its own certificate lies in its data folder. ` + "`setpoint down`" + ` ends it, stops its
containers and takes its network away.`,
		Example: `  setpoint agent --server https://10.0.0.1:6443 --token "$(cat token)"`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.DataDir, o.Logger, o.Tell, o.Command = c.dataDir, log, teller(cmd), true
			o.Ready = func(i cluster.Info) {
				fmt.Fprintf(cmd.OutOrStdout(), "this machine is node %s of %s\n", i.Node, i.URL)
			}
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			err = cluster.RunAgent(cmd.Context(), o, join)
			if errors.Is(err, cluster.ErrNoServer) {
				err = usageError{err}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&join.Server, "server", "", "`URL` of the API server, https://HOST:PORT (default: as last time)")
	cmd.Flags().StringVar(&join.Token, "token", "", "`TOKEN` to join with; needed the first time")
	nodeFlags(cmd.Flags(), &o, "that of the default route")
	return cmd
}
