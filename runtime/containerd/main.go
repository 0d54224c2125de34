// Command containerd is the container runtime daemon that Setpoint carries.
//
// It is upstream's daemon with a shorter list of plugins (see plugins.go):
// what a kubelet over CRI needs and nothing else. Compared with upstream's
// default set this saves about a third of the binary and of the time to start, and
// leaves out listeners and background work that nobody here asks for.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/cmd/containerd/command"
)

func main() {
	if err := command.App().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "containerd:", err)
		os.Exit(1)
	}
}
