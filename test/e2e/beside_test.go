package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// TestBeside: two clusters on one machine do not see each other, taking one
// down leaves nothing of it, and starting it again makes its claims true.
func TestBeside(t *testing.T) {
	registry := harness.StartRegistry(t)
	image := registry.Push("web:1", harness.Web(t, "v1"))
	one, two := harness.Start(t), harness.Start(t)
	url := map[*harness.Cluster]string{}
	serves := func(c *harness.Cluster) {
		t.Helper()
		c.Kubectl("rollout", "status", "deployment/web", "--timeout=300s")
		c.Eventually(30*time.Second, "its service answers", func() error {
			got, err := get(url[c])
			if err != nil {
				return err
			}
			for _, p := range pods(c, "app=web") {
				if strings.Contains(got, p.Name) {
					return nil
				}
			}
			return fmt.Errorf("answered by %q, a pod of another", got)
		})
	}
	for _, c := range []*harness.Cluster{one, two} {
		c.Apply(webManifest("web", image, 2))
		url[c] = "http://" + clusterIP(c, "web") + "/"
	}
	serves(one)
	serves(two)

	// While the other serves without a fault.
	stop := load(url[two], 2)
	one.Setpoint("down")
	gone(t, one.Dir)
	serves(two)
	one.Up()
	one.Eventually(time.Minute, "the claims are true again", func() error {
		if out := one.Kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"); out != "2" {
			return fmt.Errorf("%s ready", out)
		}
		_, err := get(url[one])
		return err
	})
	if answered, failures := stop(); answered == 0 || len(failures) > 0 {
		t.Errorf("the other answered %d requests meanwhile, and failed %d: %v", answered, len(failures), failures)
	}
	serves(one)
}
