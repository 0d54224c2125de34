package nodeproxy

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/proxy"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// rewriting is a transport to a pod or a service whose pages are read through
// the API server: links in HTML and redirects that begin at the root of the
// far side are led through the proxy, and the far side is told by which host
// it was asked for, as upstream does.
// https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/
func rewriting(transport http.RoundTripper, r *http.Request, a *authz.Attributes) http.RoundTripper {
	path := r.URL.EscapedPath()
	return asked{r.Host, &proxy.Transport{PathPrepend: strings.TrimSuffix(path, rest(r, a)), RoundTripper: transport}}
}

// toRoot sends whoever wants to read the root, but says so without its slash,
// there: links that are relative would lead nowhere else.
func toRoot(w http.ResponseWriter, r *http.Request, a *authz.Attributes) bool {
	if rest(r, a) != "" || r.Method != http.MethodGet && r.Method != http.MethodHead || isUpgrade(r) {
		return false
	}
	to := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// asked sends requests on with the host that the client asked.
type asked struct {
	host string
	http.RoundTripper
}

func (t asked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = t.host
	return t.RoundTripper.RoundTrip(r)
}
