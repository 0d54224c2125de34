package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver"
	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/apiserver/openapi"
	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
)

// route leads to the server of one version of a group.
type route struct {
	spec      apiregistrationv1.APIServiceSpec
	host      string // name.namespace.svc:port
	transport *http.Transport
	proxy     *httputil.ReverseProxy

	// available says why not, nil if it is. resources are what the server
	// said it serves. Both are of one look and never changed.
	available error
	resources *metav1.APIResourceList
	described *openapi.Remote // nil: not asked yet
}

// newRoute makes the way to a service. find tells where the service is reached.
func newRoute(spec apiregistrationv1.APIServiceSpec, id *identity, find *reach.Resolver) (*route, error) {
	s := spec.Service
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	name := s.Name + "." + s.Namespace + ".svc"
	secure := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, Certificates: []tls.Certificate{id.pair}}
	switch {
	case spec.InsecureSkipTLSVerify:
		secure.InsecureSkipVerify = true // as the APIService says
	case len(spec.CABundle) > 0:
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(spec.CABundle) {
			return nil, errors.New("caBundle holds no certificate")
		}
	}
	r := &route{spec: spec, host: net.JoinHostPort(name, strconv.Itoa(int(port))), available: errors.New("not asked yet")}
	r.transport = &http.Transport{
		TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return find.DialService(ctx, network, s.Namespace, s.Name, port)
		},
	}
	r.proxy = &httputil.ReverseProxy{
		Transport: r.transport, FlushInterval: -1, // watches
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: r.host})
			p.Out.Host = r.host
			identify(p.Out.Header, apiserver.UserFrom(p.In.Context()))
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, fmt.Sprintf("error trying to reach service: %v", err))
		},
	}
	return r, nil
}

// identify says on whose behalf a request is made, in place of whatever the
// client said.
func identify(h http.Header, u *authn.User) {
	for key := range h {
		if strings.HasPrefix(key, "X-Remote-") {
			delete(h, key)
		}
	}
	h.Del("Authorization")
	if u == nil {
		return
	}
	h.Set("X-Remote-User", u.Name)
	if u.UID != "" {
		h.Set("X-Remote-Uid", u.UID)
	}
	for _, g := range u.Groups {
		h.Add("X-Remote-Group", g)
	}
	for key, values := range u.Extra {
		for _, v := range values {
			h.Add("X-Remote-Extra-"+url.PathEscape(key), v)
		}
	}
}

// ServeHTTP implements http.Handler.
func (r *route) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.available != nil {
		refuse(w, "service unavailable")
		return
	}
	r.proxy.ServeHTTP(w, req)
}

func refuse(w http.ResponseWriter, text string) {
	data, _ := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: text,
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(data)
}

// ask reads what the server says it serves: that it answers shows that it is
// available.
func (r *route) ask(ctx context.Context) (*metav1.APIResourceList, error) {
	at := "/apis/" + r.spec.Group + "/" + r.spec.Version
	data, err := r.fetch(ctx, at)
	if err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("the answer of %s cannot be read: %w", "https://"+r.host+at, err)
	}
	return list, nil
}

const askTimeout = 5 * time.Second
