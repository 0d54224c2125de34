// Command bench prints one line of JSON for each figure by which Setpoint is
// measured. It starts clusters of its own, each in a fresh data folder, inside a
// network namespace with no way out, so it needs root.
//
//	make bench                    all figures
//	go run ./test/bench -only 'crud|fanout'
//
// Servers and this program share the machine's cores. Latencies are the
// client's; CPU is the server process's, of all its threads. Machines are
// noisy: compare ratios within one run, and CPU rather than seconds. Every line
// has the machine's load average, which is about the number of cores when
// nothing else runs. What is aimed at stands beside each value as target_*.
//
// With -profiles DIR, each measured stretch leaves a CPU profile of the server
// there, and each figure a heap profile, for `go tool pprof`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/setpoint-project/setpoint/test/isolated"
)

// figure is one measurement: it gets a fresh cluster started with args and
// emits lines. Without args it needs none, and gets nil.
type figure struct {
	name string
	args []string // of `setpoint up`
	run  func(ctx context.Context, c *cluster, emit func(name string, values map[string]any)) error
}

var figures = []figure{
	{"start", []string{"--nodes", "none"}, measureStart},
	{"crud", []string{"--nodes", "none"}, measureCRUD},
	{"custom", []string{"--nodes", "none"}, measureCustom},
	{"definitions", []string{"--nodes", "none"}, measureDefinitions},
	{"fanout", []string{"--nodes", "none"}, measureFanout},
	{"many", []string{"--nodes", "none"}, measureMany},
	{"watches", []string{"--nodes", "none"}, measureIdle},
	{"scale-1000", []string{"--nodes", "sim=1000"}, func(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
		return measureScale(ctx, c, 1000, emit)
	}},
	{"scale-10000", []string{"--nodes", "sim=1000"}, func(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
		return measureScale(ctx, c, 10000, emit)
	}},
	{"heal", []string{"--nodes", "sim=1000"}, measureHeal},
	{"lost", []string{"--nodes", "sim=10"}, measureLost},
	{"deployments", []string{"--nodes", "none"}, measureDeployments},
	{"large", []string{"--nodes", "sim=5000"}, func(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
		return measureLarge(ctx, c, 5000, emit)
	}},
	{"tenth-of-large", []string{"--nodes", "sim=500"}, func(ctx context.Context, c *cluster, emit func(string, map[string]any)) error {
		return measureLarge(ctx, c, 500, emit)
	}},
	{"pod", []string{"--nodes", "host"}, measurePod},
}

func main() { isolated.Main(run) }

func run() int {
	binary := flag.String("setpoint", os.Getenv("SETPOINT"), "setpoint binary")
	only := flag.String("only", "", "regular expression of the figures to measure")
	profiles := flag.String("profiles", "", "folder to write profiles of the server to")
	list := flag.Bool("list", false, "list the figures and exit")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	failed := false
	for _, f := range append(figures, schedulingFigures(*profiles)...) {
		if *list {
			fmt.Println(f.name)
			continue
		}
		if !pattern.MatchString(f.name) {
			continue
		}
		if err := measure(ctx, *binary, *profiles, f); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", f.name, err)
			failed = true
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed {
		return 1
	}
	return 0
}

func measure(ctx context.Context, binary, profiles string, f figure) error {
	out := json.NewEncoder(os.Stdout)
	emit := func(name string, values map[string]any) {
		values["figure"], values["load_average"] = name, loadAverage()
		out.Encode(values)
	}
	if len(f.args) == 0 {
		return f.run(ctx, nil, emit)
	}
	c, err := start(ctx, binary, f.args)
	if err != nil {
		return err
	}
	defer c.stop()
	if profiles != "" {
		c.profiles = &profileFolder{dir: profiles, figure: f.name}
	}
	err = f.run(ctx, c, emit)
	return errors.Join(err, c.heapProfile(ctx))
}

// schedulingFigures are the workloads of upstream's benchmark of its scheduler.
func schedulingFigures(profiles string) (out []figure) {
	for i := range workloads {
		w := &workloads[i]
		out = append(out, figure{name: "scheduling-" + w.name, run: func(_ context.Context, _ *cluster, emit func(string, map[string]any)) error {
			return measureWorkload(w, profiles, emit)
		}})
	}
	return out
}

// loadAverage of the machine over the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	var load float64
	fmt.Sscan(string(text), &load)
	return load
}
