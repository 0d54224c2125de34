package nodeproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// longestAnswer bounds what a kubelet may tell, in bytes.
const longestAnswer = 64 << 20

// Ask reads a path of a node's kubelet, on the API server's own behalf.
func (p *Proxy) Ask(ctx context.Context, node *corev1.Node, path string) ([]byte, error) {
	u := kubeletURL(node, path, nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	if local := p.local(node); local != nil {
		w := httptest.NewRecorder()
		local.ServeHTTP(w, req)
		resp = w.Result()
	} else if resp, err = p.kubelets.RoundTrip(req); err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the kubelet of %s answers %s at %s: %.200s", node.Name, resp.Status, path, strings.TrimSpace(string(data)))
	}
	return data, nil
}

func (p *Proxy) local(node *corev1.Node) http.Handler {
	if p.cfg.Local == nil {
		return nil
	}
	return p.cfg.Local(node)
}
