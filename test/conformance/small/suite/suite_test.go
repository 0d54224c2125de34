// Package suite is the part of Kubernetes' end-to-end suite that is cheap to
// build: of the packages that hold conformance tests, these bring neither the
// kubelet nor the server of custom resources. It takes the flags of the whole
// suite.
//
// All is upstream's but this file, which does what upstream's own main package
// does before the first test; that package imports every other.
package suite

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	_ "github.com/setpoint-project/setpoint/test/conformance/small/suite/gates"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/common/storage"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	e2enode "k8s.io/kubernetes/test/e2e/framework/node"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

// The cluster that the runner starts has one family of addresses.
var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	framework.TestContext.IPFamily = "ipv4"
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	framework.ExpectNoError(e2enode.WaitForAllNodesSchedulable(ctx, client, framework.NewTimeoutContext().NodeSchedulable))
})

func TestE2E(t *testing.T) {
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "the small part of Kubernetes' end-to-end suite", suite, reporter)
}
