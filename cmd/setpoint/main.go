// Command setpoint is a whole Kubernetes-compatible cluster in one binary.
package main

import (
	"os"

	"github.com/setpoint-project/setpoint/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
