// Command kubectl is upstream's kubectl, built from its published library.
//
// It is a binary of its own, carried packed inside setpoint, because linking
// it into the server would make every start of the server pay for the
// initialisation of its packages. `setpoint kubectl` unpacks it once and
// executes it. Its version is set by the linker; see bundle.mk.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins named in kubeconfig files
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
