package dynamic

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
)

// caller sends reviews to one webhook, over connections that it keeps.
type caller struct {
	url  url.URL
	http *http.Client
}

const maxAnswer = 16 << 20 // an object and its patch are at most a few MiB

// newCaller makes one. find tells where a service is reached.
func newCaller(c *admissionregistrationv1.WebhookClientConfig, find *reach.Resolver) (*caller, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if bundle := bytes.TrimSpace(c.CABundle); len(bundle) > 0 {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	transport := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, DialContext: find.Dial}
	out := &caller{http: &http.Client{Transport: transport}}
	if c.Service == nil {
		u, err := url.Parse(*c.URL)
		if err != nil {
			return nil, err
		}
		out.url = *u
		transport.Proxy = http.ProxyFromEnvironment
		return out, nil
	}
	s, port := c.Service, int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	host := s.Name + "." + s.Namespace + ".svc"
	out.url = url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
	if s.Path != nil {
		out.url.Path = *s.Path
	}
	secure.ServerName = host
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return find.DialService(ctx, network, s.Namespace, s.Name, port)
	}
	return out, nil
}

// post sends a body and returns the answer's. timeout is told to the other
// side, which need not go on working for nobody.
func (c *caller) post(ctx context.Context, body []byte, timeout time.Duration) ([]byte, error) {
	u := c.url
	u.RawQuery = "timeout=" + timeout.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("the server answered %s: %s", resp.Status, bytes.TrimSpace(data[:min(len(data), 512)]))
	}
	return data, nil
}
