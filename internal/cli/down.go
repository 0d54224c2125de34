package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

func newDown(c *common) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and its containers, and take its network away",
		Long: `Stop the cluster of the data folder if it runs, stop and remove its containers,
and take its network (bridge, routes, rules) away. What was filed stays in the
data folder: the next ` + "`setpoint up`" + ` makes it true again.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := cluster.Down(cmd.Context(), cluster.Options{DataDir: c.dataDir, Logger: log}, purge); err != nil {
				return err
			}
			if _, err := os.Stat(c.dataDir); purge && err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "down; the cluster in %s is gone, what else is there stays\n", c.dataDir)
			} else if purge {
				fmt.Fprintf(cmd.OutOrStdout(), "down; %s is gone\n", c.dataDir)
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "down; what was filed stays in %s\n", c.dataDir)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also delete the data folder: the cluster is forgotten")
	return cmd
}
