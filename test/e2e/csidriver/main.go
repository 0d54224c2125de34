// Command csidriver is the node service of a CSI driver, with folders for
// volumes, and what registers it, as the pods of the end-to-end tests run it. It
// writes a line for each call.
//
//	csidriver NAME NODE
//
// It is mounted as drivers are that know nothing of Setpoint: its socket's folder
// at /csi, the kubelet's folder of sockets at /registration, and the kubelet's
// plugins and pods at their usual places.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "csidriver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a name and a node, got %q", args)
	}
	name, node := args[0], args[1]
	d := &csitest.Driver{Name: name, NodeID: "id-of-" + node, Topology: map[string]string{name + "/node": node}, Most: 5, Folder: "/csi/data", Mounts: true,
		Capabilities: []csitest.Capability{csitest.Stage, csitest.Expand},
		After: func(_ context.Context, call, volume string) error {
			_, err := fmt.Println(call, volume)
			return err
		}}
	stop, err := d.Listen("/csi/csi.sock")
	if err != nil {
		return err
	}
	defer stop()
	unregister, told, err := d.Announce("/registration/"+name+"-reg.sock", "/var/lib/kubelet/plugins/"+name+"/csi.sock")
	if err != nil {
		return err
	}
	defer unregister()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for {
		select {
		case <-end:
			return nil
		case st := <-told:
			fmt.Println("registered:", st.PluginRegistered, st.Error)
			if !st.PluginRegistered {
				return fmt.Errorf("refused: %s", st.Error) // its pod tries again
			}
		}
	}
}
