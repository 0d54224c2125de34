// Command agnhost is the program of the image that most of the suite's tests
// run, with those of its commands that the small part asks for. Upstream's
// holds API servers and clients as well, which take long to build.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/test/images/agnhost/liveness"
	"k8s.io/kubernetes/test/images/agnhost/mounttest"
	"k8s.io/kubernetes/test/images/agnhost/mtlsclient"
	"k8s.io/kubernetes/test/images/agnhost/mtlsserver"
	"k8s.io/kubernetes/test/images/agnhost/netexec"
	"k8s.io/kubernetes/test/images/agnhost/openidmetadata"
	"k8s.io/kubernetes/test/images/agnhost/pause"
	"k8s.io/kubernetes/test/images/agnhost/podcertificatesigner"
	testwebserver "k8s.io/kubernetes/test/images/agnhost/test-webserver"
)

func main() {
	root := &cobra.Command{Use: "agnhost"}
	root.AddCommand(liveness.CmdLiveness, mounttest.CmdMounttest, mtlsclient.CmdMtlsClient, mtlsserver.CmdMtlsServer, netexec.CmdNetexec,
		openidmetadata.CmdTestServiceAccountIssuerDiscovery, pause.CmdPause, podcertificatesigner.CmdPodCertificateSigner, testwebserver.CmdTestWebserver)
	os.Exit(cli.Run(root))
}
