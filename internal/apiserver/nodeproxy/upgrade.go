package nodeproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const spdy31 = "SPDY/3.1"

// upgrade asks a kubelet to speak SPDY with a protocol over it, and returns
// the connection when it agreed. Its refusal comes as a Status.
func (p *Proxy) upgrade(ctx context.Context, to *url.URL, protocol, pod string) (net.Conn, error) {
	conn, err := p.dialTLS(ctx, to.Host)
	if err != nil {
		return nil, unreachable(err)
	}
	agreed, err := handshake(ctx, conn, to, protocol)
	if err != nil {
		conn.Close()
		return nil, unreachable(err)
	}
	if agreed.resp.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		return nil, kubeletError(agreed.resp, pods.GroupResource(), pod)
	}
	if got := agreed.resp.Header.Get("X-Stream-Protocol-Version"); got != "" && got != protocol {
		conn.Close()
		return nil, unreachable(fmt.Errorf("the kubelet chose protocol %q, not %q", got, protocol))
	}
	return &bufferedConn{conn, agreed.read}, nil
}

func (p *Proxy) dialTLS(ctx context.Context, addr string) (net.Conn, error) {
	raw, err := p.dialNode(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{}
	if p.cfg.KubeletTLS != nil {
		conf = p.cfg.KubeletTLS.Clone()
	}
	conf.ServerName, _, err = net.SplitHostPort(addr)
	if err != nil {
		raw.Close()
		return nil, err
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

type agreement struct {
	resp *http.Response
	read *bufio.Reader // may hold what came right behind the answer
}

// handshakeTimeout bounds how long a kubelet may think.
const handshakeTimeout = 30 * time.Second

func handshake(ctx context.Context, conn net.Conn, to *url.URL, protocol string) (*agreement, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", spdy31)
	req.Header.Set("X-Stream-Protocol-Version", protocol)
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return &agreement{resp, read}, nil // its body is still to be read
	}
	return &agreement{resp, read}, conn.SetDeadline(time.Time{})
}

// bufferedConn reads first what was read too much.
type bufferedConn struct {
	net.Conn
	read io.Reader
}

func (c *bufferedConn) Read(b []byte) (int, error) { return c.read.Read(b) }
