package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-project/setpoint/internal/cluster"
)

// clusterFlags are the flags of the commands that hold a store.
func clusterFlags(fs *pflag.FlagSet, o *cluster.Options) {
	fs.StringVar(&o.Listen, "listen", "", "`HOST:PORT` of the API server (default: as last time, else 127.0.0.1:6443 or the next free port)")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "also write the administrator's kubeconfig to this `FILE`")
	fs.StringVar(&o.AdmissionConfig, "admission-control-config-file", "", "`FILE` with an AdmissionConfiguration: defaults and exemptions of PodSecurity")
	fs.StringVar(&o.RequestLog, "request-log", "", "write one line of JSON for each request to this `FILE`")
	fs.DurationVar(&o.HistoryAge, "history-age", 10*time.Minute, "how long old revisions stay readable")
	fs.Int64Var(&o.HistoryRevisions, "history-revisions", 100_000, "how many old revisions stay readable at the most")
	fs.Var(&o.ClusterCIDRs, "cluster-cidr", "range of the pods' addresses, or one of each family, the primary first; at the first start, or later to add the second (default: a free /16 from 10.42.0.0 on; with more than 200 simulated nodes, one with a /24 for each)")
	fs.StringVar(&o.DNS, "dns", "", "`WHO` answers the names of services: builtin (each node), or none (a server that you install, at the tenth address of the service range) (default: as last time, else builtin)")
	fs.StringVar(&o.LoadBalancerPool, "load-balancer-pool", "", "where Services of type LoadBalancer get their addresses from, a `POOL`: nodes (theirs), none (a balancer that you install), or ranges such as 192.0.2.16/28,192.0.2.40-192.0.2.50 (default: as last time, else nodes)")
	fs.Var(&o.ServiceCIDRs, "service-cidr", "range of the services' addresses, or one of each family, as of the pods (default: a free /16 from 10.43.0.0 on)")
}

// nodeFlags are the flags of the commands that run a node.
// ip says what --node-ip is by default.
func nodeFlags(fs *pflag.FlagSet, o *cluster.Options, ip string) {
	fs.StringVar(&o.NodeName, "node-name", "", "`NAME` of this machine's Node (default: as last time, else its host name)")
	fs.StringVar(&o.RuntimeEndpoint, "container-runtime-endpoint", "", "`unix://PATH` of a CRI runtime to use instead of the one that setpoint carries")
	fs.Var(&o.NodeIPs, "node-ip", "address by which other nodes reach this one, or one of each family (default: as last time, else "+ip+")")
}

// schedulerFlag is the flag of the commands that run the scheduler.
func schedulerFlag(fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "scheduler-config", "", "`FILE` with a KubeSchedulerConfiguration: profiles, weights of plugins, extenders (default: one profile, default-scheduler)")
}

func newUp(c *common) *cobra.Command {
	var o cluster.Options
	var detach bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a whole cluster on this machine",
		Long: `Start a whole cluster in one process: API server, loops, scheduler and, unless
told otherwise, this machine as its node. It runs in the foreground until
SIGTERM or Ctrl-C. Containers live on then, and the next ` + "`setpoint up`" + ` takes
them over; ` + "`setpoint down`" + ` stops them. When the disk fails (it is full, say), before
it is open or later, it ends with exit status 3, for whoever supervises it to
start it again.

A second cluster beside the first needs only a data folder of its own.`,
		Example: `  setpoint up                                    # this machine is the node (as root)
  setpoint up --nodes sim=100 --data-dir ./lab   # a hundred simulated nodes, no root needed
  setpoint up --detach                           # return once it is ready`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if detach {
				return detached(c, cmd)
			}
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
			return cluster.Up(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Nodes, "nodes", "host", "host (this machine), none, or sim=N for N simulated nodes")
	cmd.Flags().BoolVar(&detach, "detach", false, "start it in the background and return once it is ready; its log goes to DATA/setpoint.log")
	clusterFlags(cmd.Flags(), &o)
	nodeFlags(cmd.Flags(), &o, "one that only this machine reaches")
	schedulerFlag(cmd.Flags(), &o.SchedulerConfig)
	return cmd
}

// teller prints what a start waits for.
func teller(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
}

// announce prints the first lines: that it is ready, and what to type next.
func announce(w io.Writer, c *common, i cluster.Info) {
	fmt.Fprintf(w, "ready in %d ms: %s\n", i.Took.Milliseconds(), i.URL)
	fmt.Fprintf(w, "next: %s kubectl get nodes\n", c.call())
	fmt.Fprintf(w, "  or: export KUBECONFIG=%s\n", shellWord(i.Kubeconfig))
}

// detached runs the same command again in a session of its own, and returns
// when it says that it is ready or ends.
func detached(c *common, cmd *cobra.Command) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dataDir, 0o700); err != nil {
		return err
	}
	logPath := filepath.Join(c.dataDir, "setpoint.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	child := exec.Command(self, append(withoutDetach(os.Args[1:]), "--log-level", c.logLevel)...)
	child.Stdout, child.Stderr = write, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	start, _ := log.Seek(0, io.SeekEnd)
	if err := child.Start(); err != nil {
		return err
	}
	write.Close()
	// The child's standard output is the announcement: the last line says
	// where the kubeconfig is. It is closed when the child ends.
	lines, err := readLines(read, 3)
	fmt.Fprint(cmd.OutOrStdout(), lines)
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "it runs in the background as process %d, log in %s; stop it with: kill %d\n", child.Process.Pid, logPath, child.Process.Pid)
		return child.Process.Release()
	}
	child.Wait()
	tail, _ := os.ReadFile(logPath)
	cmd.ErrOrStderr().Write(tail[min(start, int64(len(tail))):])
	return exitCode(max(1, child.ProcessState.ExitCode()))
}

func withoutDetach(args []string) []string {
	var kept []string
	for _, a := range args {
		if a != "--detach" && a != "--detach=true" {
			kept = append(kept, a)
		}
	}
	return kept
}

// readLines reads n lines; less is an error.
func readLines(r io.Reader, n int) (string, error) {
	var got []byte
	one := make([]byte, 1)
	for n > 0 {
		if _, err := r.Read(one); err != nil {
			return string(got), errors.Join(errors.New("ended early"), err)
		}
		if got = append(got, one[0]); one[0] == '\n' {
			n--
		}
	}
	return string(got), nil
}
