package cluster

import (
	"context"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/aggregation"
	"github.com/setpoint-project/setpoint/internal/apiserver/nodeproxy"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/metricsserver"
	"github.com/setpoint-project/setpoint/internal/simnode"
)

// simulatedKubelets answer in place of the kubelets that simulated nodes do not
// have, whichever process runs the nodes. They are made when they are first
// needed: most clusters have none.
func (c *controlPlane) simulatedKubelets() func(*corev1.Node) http.Handler {
	kubelets := sync.OnceValue(func() *simnode.Kubelets {
		return simnode.NewKubelets(c.self().View(client.Pods, client.ViewOptions{}))
	})
	return func(node *corev1.Node) http.Handler {
		if !simnode.Simulated(node) {
			return nil
		}
		return kubelets().Of(node)
	}
}

// builtin are the versions that the API server serves without their being
// kinds, as long as nobody else does.
func (c *controlPlane) builtin(nodes *nodeproxy.Proxy) map[schema.GroupVersion]aggregation.Builtin {
	return map[schema.GroupVersion]aggregation.Builtin{
		metricsserver.GroupVersion: metricsserver.New(metricsserver.Config{
			Nodes: c.self().View(client.Nodes, client.ViewOptions{}), Pods: c.self().View(client.Pods, client.ViewOptions{}),
			Scrape: func(ctx context.Context, node *corev1.Node) ([]byte, error) {
				return nodes.Ask(ctx, node, "/metrics/resource")
			},
			Logger: c.log,
		}),
	}
}
