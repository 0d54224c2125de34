package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-project/setpoint/internal/cluster"
	"github.com/setpoint-project/setpoint/internal/kubeconfig"
)

// api is the administrator's way to the cluster of a data folder.
type api struct {
	base   string
	client *http.Client
}

func openAPI(dataDir string) (*api, error) {
	if _, err := cluster.LoadState(dataDir); err != nil {
		return nil, err
	}
	cfg, err := kubeconfig.Load(cluster.AdminKubeconfig(dataDir))
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &api{cfg.Host, client}, nil
}

// do sends a request and decodes the answer into out when it is not nil. A
// refusal is an error with the server's message.
func (a *api) do(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	res, err := a.stream(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer res.Close()
	if out == nil {
		_, err := io.Copy(io.Discard, res)
		return err
	}
	return json.NewDecoder(res).Decode(out)
}

// stream is do for an answer that goes on (a watch).
func (a *api) stream(ctx context.Context, method, path, contentType string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "setpoint-cli")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res.Body, nil
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var status metav1.Status
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		return nil, fmt.Errorf("%s", status.Message)
	}
	return nil, fmt.Errorf("%s %s: %s", method, path, res.Status)
}
