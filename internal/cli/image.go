package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
	"github.com/setpoint-project/setpoint/internal/containerd"
)

func newImage(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "List, import and remove the container images of this node",
		Args:  args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImageImport(c), newImageList(c), newImageRemove(c))
	return cmd
}

func newImageImport(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "import FILE...",
		Short:   "Import images from archives (docker save or OCI layout; - is standard input)",
		Example: "  docker save web:1 | setpoint image import -",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			socket, err := cluster.RuntimeSocket(cmd.Context(), c.dataDir, teller(cmd))
			if err != nil {
				return err
			}
			for _, file := range files {
				names, err := importFile(cmd, socket, file)
				if err != nil {
					return fmt.Errorf("import %s: %w", file, err)
				}
				for _, name := range names {
					fmt.Fprintln(cmd.OutOrStdout(), "imported", name)
				}
			}
			return nil
		},
	}
}

func importFile(cmd *cobra.Command, socket, file string) ([]string, error) {
	var r io.Reader = cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	return containerd.ImportImage(cmd.Context(), socket, r)
}

func newImageList(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the images of this node",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			socket, err := cluster.RuntimeSocket(cmd.Context(), c.dataDir, teller(cmd))
			if err != nil {
				return err
			}
			images, err := containerd.ListImages(cmd.Context(), socket)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tID\tSIZE")
			for _, i := range images {
				names := i.Tags
				if len(names) == 0 {
					names = append(i.Digests, "<none>")[:1]
				}
				id := strings.TrimPrefix(i.ID, "sha256:")
				for _, name := range names {
					fmt.Fprintf(w, "%s\t%s\t%.1f MiB\n", name, id[:min(12, len(id))], float64(i.Size)/(1<<20))
				}
			}
			return w.Flush()
		},
	}
}

func newImageRemove(c *common) *cobra.Command {
	return &cobra.Command{
		Use:     "remove IMAGE...",
		Aliases: []string{"rm"},
		Short:   "Remove images from this node",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			socket, err := cluster.RuntimeSocket(cmd.Context(), c.dataDir, teller(cmd))
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := containerd.RemoveImage(cmd.Context(), socket, name); err != nil {
					return fmt.Errorf("remove %s: %w", name, err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), "removed", name)
			}
			return nil
		},
	}
}
