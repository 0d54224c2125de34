// Command dns is the cluster's DNS server on one node, carried packed inside
// setpoint, which starts it with its sockets. See internal/dns/server.
package main

import (
	"fmt"
	"os"

	"github.com/setpoint-project/setpoint/internal/dns/server"
)

func main() {
	if err := server.Main(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
