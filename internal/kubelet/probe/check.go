package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	userAgent = "kube-probe/1.37"
	maxBody   = 10 << 10
)

// Target is the container that is probed.
type Target struct {
	Host  string // the pod's address
	Ports []v1.ContainerPort
	// Exec runs a command in the container.
	Exec func(ctx context.Context, command []string, timeout time.Duration) (exit int32, output []byte, err error)
}

// Check asks once. ctx carries the timeout.
func Check(ctx context.Context, h v1.ProbeHandler, timeout time.Duration, t Target) (Result, string) {
	switch {
	case h.Exec != nil:
		return execute(ctx, h.Exec, timeout, t)
	case h.HTTPGet != nil:
		req, err := Request(ctx, h.HTTPGet, t.Host, t.Ports)
		if err != nil {
			return Unknown, err.Error()
		}
		return get(req)
	case h.TCPSocket != nil:
		port, err := Port(h.TCPSocket.Port, t.Ports)
		if err != nil {
			return Unknown, err.Error()
		}
		host := h.TCPSocket.Host
		if host == "" {
			host = t.Host
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return Failure, err.Error()
		}
		// A reset tells the server at once that no one is there, and leaves no
		// connection in TIME_WAIT.
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		return Success, ""
	case h.GRPC != nil:
		return askGRPC(ctx, h.GRPC, timeout, t)
	}
	return Unknown, "missing probe handler"
}

func execute(ctx context.Context, a *v1.ExecAction, timeout time.Duration, t Target) (Result, string) {
	exit, out, err := t.Exec(ctx, a.Command, timeout)
	text := string(out[:min(len(out), maxBody)])
	switch {
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded):
		return Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(a.Command, " "), timeout)
	case err != nil:
		return Unknown, err.Error()
	case exit != 0:
		return Failure, text
	}
	return Success, text
}

// Port is a port by number or by name.
func Port(p intstr.IntOrString, ports []v1.ContainerPort) (int, error) {
	n := p.IntValue()
	if p.Type == intstr.String {
		n = 0
		for _, c := range ports {
			if c.Name == p.StrVal {
				n = int(c.ContainerPort)
			}
		}
		if n == 0 {
			v, err := strconv.Atoi(p.StrVal)
			if err != nil {
				return 0, fmt.Errorf("port %q is not a port of the container", p.StrVal)
			}
			n = v
		}
	}
	if n <= 0 || n > 65535 {
		return 0, fmt.Errorf("port number %d is not between 1 and 65535", n)
	}
	return n, nil
}

// Request is the request that an HTTP action asks for.
func Request(ctx context.Context, a *v1.HTTPGetAction, host string, ports []v1.ContainerPort) (*http.Request, error) {
	port, err := Port(a.Port, ports)
	if err != nil {
		return nil, err
	}
	if a.Host != "" {
		host = a.Host
	}
	u, err := url.Parse(a.Path)
	if err != nil {
		u = &url.URL{Path: a.Path}
	}
	u.Scheme = strings.ToLower(string(a.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "*/*")
	given := map[string]bool{}
	for _, h := range a.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value
			continue
		}
		k := http.CanonicalHeaderKey(h.Name)
		if !given[k] {
			given[k] = true
			req.Header.Del(k)
		}
		if h.Value == "" && (k == "Accept" || k == "User-Agent") {
			req.Header[k] = []string{""}
			continue
		}
		req.Header.Add(k, h.Value)
	}
	return req, nil
}

// transport makes each probe its own connection: it is the container that is
// asked, not a connection to it.
var transport = &http.Transport{
	TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, // the certificate is not what is probed
	DisableKeepAlives:  true,
	DisableCompression: true,
	Proxy:              nil,
}

func get(req *http.Request) (Result, string) {
	c := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		// Elsewhere is not this container.
		if next.URL.Hostname() != via[0].URL.Hostname() || len(via) >= 10 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := c.Do(req)
	if err != nil {
		return Failure, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return Failure, err.Error()
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return Success, string(body)
	}
	return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", resp.StatusCode)
}

func askGRPC(ctx context.Context, a *v1.GRPCAction, timeout time.Duration, t Target) (Result, string) {
	addr := net.JoinHostPort(t.Host, strconv.Itoa(int(a.Port)))
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(userAgent))
	if err != nil {
		return Unknown, err.Error()
	}
	defer conn.Close()
	service := ""
	if a.Service != nil {
		service = *a.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	case status.Code(err) == codes.Unimplemented:
		return Failure, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", err)
	case err != nil:
		return Failure, fmt.Sprintf("error: health rpc probe failed: %s", err)
	case resp.Status != healthpb.HealthCheckResponse_SERVING:
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", resp.Status.String())
	}
	return Success, ""
}

// Transport is that of probes, for lifecycle hooks.
func Transport() http.RoundTripper { return transport }
