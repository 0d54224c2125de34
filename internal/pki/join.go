package pki

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// JoinPath is where a server signs the certificates of nodes that join.
const JoinPath = "/setpoint/v1/join"

type joinRequest struct {
	Token string   `json:"token"`
	Node  string   `json:"node"`
	IPs   []string `json:"ips,omitempty"`
	// Requests for certificates, PEM. Only their public keys and signatures
	// are looked at: the server decides on names.
	ClientCSR  []byte `json:"clientCSR"`
	ServingCSR []byte `json:"servingCSR"`
}

type joinResponse struct {
	CA      []byte `json:"ca"`
	Client  []byte `json:"client"`
	Serving []byte `json:"serving"`
}

// NodeCerts is what a node holds after it joined.
type NodeCerts struct {
	CAPEM   []byte
	Pool    *x509.CertPool
	Client  *Pair
	Serving *Pair
}

// JoinOptions say who joins where.
type JoinOptions struct {
	Server string // https://HOST:PORT
	Token  string // as the server wrote it to DATA/token
	Node   string
	IPs    []net.IP // at which the kubelet serves
	Dir    string   // where keys and certificates are kept
	// DialContext, when not nil, makes the connection.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Join gets the certificates of a node: a client certificate for
// system:node:NODE and a serving certificate for its kubelet. The server is
// known by the hash of the authority in the token; keys never leave the node.
// What lies in Dir already and is not near its end is used without asking the
// server; without a token nothing else is.
func Join(ctx context.Context, o JoinOptions) (*NodeCerts, error) {
	var token Token
	if o.Token != "" {
		var err error
		if token, err = parseToken(o.Token); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	defer unlock()
	if certs := loadJoined(o, token); certs != nil {
		return certs, nil
	}
	if o.Token == "" {
		return nil, fmt.Errorf("join %s as %q: the join token is needed, for no certificate that is good still lies in %s", o.Server, o.Node, o.Dir)
	}
	certs, err := join(ctx, o, token)
	if err != nil {
		return nil, fmt.Errorf("join %s as %q: %w", o.Server, o.Node, err)
	}
	return certs, nil
}

func (o *JoinOptions) clientPath() string  { return filepath.Join(o.Dir, "node-"+o.Node+".pem") }
func (o *JoinOptions) servingPath() string { return filepath.Join(o.Dir, "kubelet-"+o.Node+".pem") }

func loadJoined(o JoinOptions, token Token) *NodeCerts {
	ca, err := os.ReadFile(filepath.Join(o.Dir, "server-ca.crt"))
	if err != nil {
		return nil
	}
	caCert, err := parseCert(ca)
	if err != nil || o.Token != "" && hashOf(caCert) != token.CAHash {
		return nil
	}
	client, err := readPair(o.clientPath())
	if err != nil {
		return nil
	}
	serving, err := readPair(o.servingPath())
	if err != nil {
		return nil
	}
	now := time.Now()
	cp := Profile{CommonName: NodeUserPrefix + o.Node, Organizations: []string{NodesGroup}, Client: true}
	sp := kubeletProfile(o.Node, o.IPs)
	if !cp.fits(client.Cert, caCert, now) || !sp.fits(serving.Cert, caCert, now) {
		return nil
	}
	return newNodeCerts(ca, caCert, client, serving)
}

func newNodeCerts(caPEM []byte, ca *x509.Certificate, client, serving *Pair) *NodeCerts {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	serving.Chain = append(serving.Chain[:1:1], ca.Raw)
	return &NodeCerts{CAPEM: caPEM, Pool: pool, Client: client, Serving: serving}
}

func join(ctx context.Context, o JoinOptions, token Token) (*NodeCerts, error) {
	clientKey, clientCSR, err := newRequest(o.Node)
	if err != nil {
		return nil, err
	}
	servingKey, servingCSR, err := newRequest(o.Node)
	if err != nil {
		return nil, err
	}
	req := joinRequest{Token: token.String(), Node: o.Node, ClientCSR: clientCSR, ServingCSR: servingCSR}
	for _, ip := range o.IPs {
		req.IPs = append(req.IPs, ip.String())
	}
	resp, err := postJoin(ctx, o, token, req)
	if err != nil {
		return nil, err
	}
	ca, err := parseCert(resp.CA)
	if err != nil {
		return nil, fmt.Errorf("the server's authority: %w", err)
	}
	if hashOf(ca) != token.CAHash {
		return nil, errors.New("the server answered with another authority than the token names")
	}
	client, err := parsePair("client certificate", append(resp.Client, encodeKey(clientKey)...))
	if err != nil {
		return nil, err
	}
	serving, err := parsePair("serving certificate", append(resp.Serving, encodeKey(servingKey)...))
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		{filepath.Join(o.Dir, "server-ca.crt"), resp.CA},
		{o.clientPath(), client.encode()},
		{o.servingPath(), serving.encode()},
	} {
		if err := WriteFile(f.path, f.data, 0o600, true); err != nil {
			return nil, err
		}
	}
	return newNodeCerts(resp.CA, ca, client, serving), nil
}

func newRequest(node string) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: NodeUserPrefix + node, Organization: []string{NodesGroup}},
	}, key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

func postJoin(ctx context.Context, o JoinOptions, token Token, body joinRequest) (*joinResponse, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("want a server as https://HOST:PORT, got %q", o.Server)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: o.DialContext,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			ServerName: u.Hostname(),
			// The authority is not known yet: VerifyConnection finds it in the
			// chain by its hash, and checks the chain against it.
			InsecureSkipVerify: true,
			VerifyConnection: func(cs tls.ConnectionState) error {
				return verifyByHash(cs, token.CAHash)
			},
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(o.Server, "/")+JoinPath, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server refused with %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	out := &joinResponse{}
	if err := json.Unmarshal(answer, out); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return out, nil
}

func verifyByHash(cs tls.ConnectionState, hash string) error {
	roots := x509.NewCertPool()
	found := false
	for _, c := range cs.PeerCertificates[1:] {
		if c.IsCA && hashOf(c) == hash {
			roots.AddCert(c)
			found = true
		}
	}
	if !found {
		return errors.New("the server's certificate is not from the authority that the token names: wrong server, or a token of another cluster")
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots:     roots,
		DNSName:   cs.ServerName,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
