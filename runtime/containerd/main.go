// Command containerd is the container runtime daemon that Setpoint carries.
//
// It is upstream's daemon with a shorter list of plugins (see plugins.go):
// what a kubelet over CRI needs and nothing else. Compared with upstream's set
// this saves a tenth of the binary and of its resident memory, some of the time
// to start, and listeners and background work that nobody here asks for.
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
