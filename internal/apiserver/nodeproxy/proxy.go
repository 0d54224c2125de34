// Package nodeproxy connects clients of the API server with what runs on
// nodes: logs, exec, attach and port-forward through the kubelet, and HTTP to
// pods, services and kubelets.
//
//	client --HTTP, SPDY, WebSocket--> API server --TLS, HTTP/1.1--> kubelet
//
// Bytes pass as they come. Two protocols end here, because kubelets and
// container runtimes do not speak them: WebSockets with v5.channel.k8s.io
// become SPDY streams (translate.go), and SPDY that is wrapped in WebSocket
// messages is unwrapped (tunnel.go). Either way the kubelet is asked before
// the client's connection is upgraded, so its refusal reaches the client as a
// Status.
//
// A Proxy keeps no state but idle connections, and may be used from many
// goroutines. A stream ends when either side ends, or when the request's
// context does.
package nodeproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
)

// Config is what a Proxy is made of.
type Config struct {
	Get  func(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error)
	List func(ctx context.Context, res client.Resource, namespace string) ([]client.Object, error)
	// KubeletTLS shows the API server's certificate to kubelets and trusts the
	// cluster's authority. A kubelet must serve under its node's name.
	KubeletTLS *tls.Config
	// Admit, when not nil, is asked before a stream is opened or a request goes
	// on: admission of the operation CONNECT.
	Admit func(r *http.Request, a *authz.Attributes) error
	// Local is who answers in a kubelet's place in this process; nil, or
	// returning nil, when the kubelet itself does.
	Local func(node *corev1.Node) http.Handler
	// Dial makes connections; nil: net.Dialer's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Proxy serves the subresources.
type Proxy struct {
	cfg      Config
	kubelets *http.Transport
	direct   *http.Transport // to pods and services
}

// Handler serves one subresource.
type Handler = func(w http.ResponseWriter, r *http.Request, a *authz.Attributes)

// New makes a Proxy.
func New(cfg Config) *Proxy {
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	p := &Proxy{cfg: cfg}
	p.kubelets = &http.Transport{
		TLSClientConfig:       cfg.KubeletTLS,
		DialContext:           p.dialNode,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// Upgrades need HTTP/1.1, so HTTP/2 is never offered.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	p.direct = &http.Transport{
		DialContext:         cfg.Dial,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // pods have no names to check
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return p
}

// Handlers lists what p serves, by "resource/subresource".
func (p *Proxy) Handlers() map[string]Handler {
	return map[string]Handler{
		"pods/log":         wrap(p.logs),
		"pods/exec":        wrap(p.admitted(p.exec)),
		"pods/attach":      wrap(p.admitted(p.attach)),
		"pods/portforward": wrap(p.admitted(p.portForward)),
		"pods/proxy":       wrap(p.admitted(p.pod)),
		"services/proxy":   wrap(p.admitted(p.service)),
		"nodes/proxy":      wrap(p.admitted(p.node)),
	}
}

// admitted asks Admit first.
func (p *Proxy) admitted(h func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error) func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
	return func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error {
		if p.cfg.Admit != nil {
			if err := p.cfg.Admit(r, a); err != nil {
				return err
			}
		}
		return h(w, r, a)
	}
}

// wrap answers with the error of h, if it has one and has not answered yet.
func wrap(h func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) error) Handler {
	return func(w http.ResponseWriter, r *http.Request, a *authz.Attributes) {
		if err := h(w, r, a); err != nil {
			refuse(w, err)
		}
	}
}

func refuse(w http.ResponseWriter, err error) {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(body, '\n'))
}

// forward passes a request on and the answer back, upgrades included. Errors
// of the far side become a Status when convert says so.
func forward(w http.ResponseWriter, r *http.Request, to *url.URL, transport http.RoundTripper, convert func(*http.Response) error) {
	(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(out *httputil.ProxyRequest) {
			out.Out.URL = to
			out.Out.Host = to.Host
		},
		FlushInterval:  -1, // a log that is followed shows each line as it comes
		ModifyResponse: convert,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, unreachable(err)) },
		ErrorLog:       discard,
	}).ServeHTTP(w, r)
}

// unreachable makes an error of the connection a Status; what is one stays.
func unreachable(err error) error {
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		return err
	}
	return apierrors.NewInternalError(fmt.Errorf("error dialing backend: %w", err))
}

// kubeletErrors makes a Status of a kubelet's refusal, for the object that was
// asked about.
func kubeletErrors(res schema.GroupResource, name string) func(*http.Response) error {
	return func(resp *http.Response) error {
		if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= 200 && resp.StatusCode <= 206 {
			return nil
		}
		return kubeletError(resp, res, name)
	}
}

func kubeletError(resp *http.Response, res schema.GroupResource, name string) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
	resp.Body.Close()
	message := strings.TrimSpace(string(text))
	switch resp.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(message))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(message)
	}
	err := apierrors.NewGenericServerResponse(resp.StatusCode, "", res, name, message, 0, false)
	if message != "" {
		err.ErrStatus.Message = message // it says more than the code does
	}
	return err
}

// isUpgrade tells whether the client wants another protocol.
func isUpgrade(r *http.Request) bool {
	for _, h := range r.Header.Values("Connection") {
		for token := range strings.SplitSeq(h, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return r.Header.Get("Upgrade") != ""
			}
		}
	}
	return false
}
