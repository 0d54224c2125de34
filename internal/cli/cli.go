// Package cli is the command line of setpoint: a thin layer of flags over
// package cluster. Every command prints what it did and, where it helps, what
// to type next. An error is one line on standard error and exit status 1; a
// wrong flag or argument is status 2, a disk that failed under a cluster, or
// kept it from opening, status 3.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// exitCode is an error that only sets the exit status: what there was to say
// is said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a wrong flag or argument.
type usageError struct{ error }

// Main runs the command line and returns the exit status.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	root := New()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var code exitCode
	var usage usageError
	var disk *cluster.StoreError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "error: %v\nsee `setpoint --help`\n", err)
		return 2
	}
	fmt.Fprintf(errOut, "error: %v\n", err)
	if errors.As(err, &disk) {
		return 3
	}
	return 1
}

// common holds the flags that every command has.
type common struct {
	dataDir  string
	logLevel string
}

func (c *common) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: must be debug, info, warn or error", c.logLevel)}
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}

// New makes the command tree.
func New() *cobra.Command {
	c := &common{}
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "A whole Kubernetes-compatible cluster in one binary",
		Long: `Setpoint is a whole Kubernetes-compatible cluster in one binary. You file a
claim; a room of loops makes it true and keeps it true.

    setpoint up                 start a cluster on this machine
    setpoint kubectl get nodes  talk to it (any other kubectl works as well)
    setpoint status             what runs, and which loop has not closed which gap
    setpoint down               stop its containers and take its network away`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Flags before `kubectl` are ours, those after it are not.
		TraverseChildren: true,
		Args:             cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if c.dataDir != "" { // what is printed holds in any folder
				c.dataDir, err = filepath.Abs(c.dataDir)
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&c.dataDir, "data-dir", defaultDataDir(), "`DIR` that holds everything the cluster keeps; SETPOINT_DATA_DIR sets another default")
	root.PersistentFlags().StringVar(&c.logLevel, "log-level", "warn", "least `LEVEL` that is logged to standard error: debug, info, warn, error")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddGroup(&cobra.Group{ID: "cluster", Title: "Run a cluster:"}, &cobra.Group{ID: "use", Title: "Use it:"}, &cobra.Group{ID: "parts", Title: "Run its parts alone:"})
	for id, cmds := range map[string][]*cobra.Command{
		"cluster": {newUp(c), newDown(c), newStatus(c), newWhy(c)},
		"use":     {newKubectl(c), newImage(c), newDemo(c), newEnvtest()},
		"parts":   {newServer(c), newControllers(c), newScheduler(c), newAgent(c), newSimnodes(c)},
	} {
		for _, cmd := range cmds {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion())
	return root
}

// defaultDataDir honours SETPOINT_DATA_DIR, so that a shell can stay with one
// of several clusters.
func defaultDataDir() string {
	if dir := os.Getenv("SETPOINT_DATA_DIR"); dir != "" {
		return dir
	}
	return cluster.DefaultDataDir()
}

// call is how to call this program again for the same cluster, for the lines
// that say what to type next.
func (c *common) call() string {
	program := "setpoint"
	if strings.Contains(os.Args[0], "setpoint") {
		program = os.Args[0] // as it was typed: it need not be in the PATH
	}
	if dir, err := filepath.Abs(defaultDataDir()); err != nil || c.dataDir != dir {
		return shellWord(program) + " --data-dir " + shellWord(c.dataDir)
	}
	return shellWord(program)
}

// shellWord is how to type a word so that a shell takes it as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,@%=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// args wraps a cobra check so that its refusal counts as a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := check(cmd, a); err != nil {
			return usageError{err}
		}
		return nil
	}
}
