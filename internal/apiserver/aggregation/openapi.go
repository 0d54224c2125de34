package aggregation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/openapi"
)

// maxDocument bounds what one server may say of itself.
const maxDocument = 32 << 20

// fetch reads a document of the server's, in JSON.
func (r *route) fetch(ctx context.Context, path string) ([]byte, error) {
	at := "https://" + r.host + path
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	identify(req.Header, &authn.User{Name: "system:kube-aggregator", Groups: []string{"system:masters"}})
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %s: %w", at, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("failing or missing response from %s: bad status from %s: %d", at, at, resp.StatusCode)
	}
	return data, nil
}

// describe asks the server to describe its version in OpenAPI. A server that
// does not is served all the same.
func (r *route) describe(ctx context.Context) *openapi.Remote {
	gv := groupVersionOf(&r.spec)
	out := &openapi.Remote{GroupVersion: gv}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if data, err := r.fetch(ctx, "/openapi/v3"); err == nil && json.Unmarshal(data, &index) == nil {
		url := index.Paths["apis/"+gv.Group+"/"+gv.Version].ServerRelativeURL
		if strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "//") {
			if had := r.described; had != nil && had.Source == url && strings.Contains(url, "hash=") {
				return had
			}
			if data, err := r.fetch(ctx, url); err == nil && json.Valid(data) {
				sum := sha256.Sum256(data)
				out.V3, out.Source, out.Hash = data, url, strings.ToUpper(hex.EncodeToString(sum[:]))
			}
		}
	}
	if data, err := r.fetch(ctx, "/openapi/v2"); err == nil && json.Valid(data) {
		out.V2 = data
	}
	return out
}

// sameText tells whether two descriptions say the same.
func sameText(a, b *openapi.Remote) bool {
	return a == b || a != nil && b != nil && a.Hash == b.Hash && string(a.V2) == string(b.V2)
}

// Described is what is said of the versions that are served behind services, in
// an order that stays.
func (a *Aggregator) Described() []openapi.Remote {
	var out []openapi.Remote
	for _, r := range *a.routes.Load() {
		if r.described != nil {
			out = append(out, *r.described)
		}
	}
	slices.SortFunc(out, func(x, y openapi.Remote) int {
		return strings.Compare(x.GroupVersion.String(), y.GroupVersion.String())
	})
	return out
}
