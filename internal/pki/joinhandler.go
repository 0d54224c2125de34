package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation"
)

// JoinHandler signs the certificates of nodes that bring the token. It serves
// JoinPath. Whoever holds the token may become any node, as with upstream's
// bootstrap tokens; what a node may do is the authorizer's to say.
//
// api is the API server's own serving certificate: no node may be called as it
// is, or its serving certificate would pass for the API server's.
func (a *Authority) JoinHandler(token Token, api func() *x509.Certificate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		var req joinRequest
		if err == nil {
			err = json.Unmarshal(body, &req)
		}
		if err != nil {
			http.Error(w, "not a join request: "+err.Error(), http.StatusBadRequest)
			return
		}
		given, err := parseToken(req.Token)
		if err != nil || !token.Matches(given) {
			http.Error(w, "wrong join token", http.StatusUnauthorized)
			return
		}
		resp, err := a.signJoin(&req, api())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(resp)
	})
}

func (a *Authority) signJoin(req *joinRequest, api *x509.Certificate) (*joinResponse, error) {
	if errs := validation.IsDNS1123Subdomain(req.Node); len(errs) > 0 {
		return nil, fmt.Errorf("node name %q: %s", req.Node, errs[0])
	}
	if api != nil && api.VerifyHostname(req.Node) == nil {
		return nil, fmt.Errorf("node name %q is a name of the API server", req.Node)
	}
	var ips []net.IP
	for _, s := range req.IPs {
		ip := net.ParseIP(s)
		if ip == nil || ip.IsUnspecified() || ip.IsMulticast() {
			return nil, fmt.Errorf("%q is no address at which others reach a kubelet", s)
		}
		ips = append(ips, ip)
	}
	clientKey, err := requestKey(req.ClientCSR)
	if err != nil {
		return nil, fmt.Errorf("client certificate request: %w", err)
	}
	servingKey, err := requestKey(req.ServingCSR)
	if err != nil {
		return nil, fmt.Errorf("serving certificate request: %w", err)
	}
	client, err := a.Sign(clientKey, Profile{
		CommonName: NodeUserPrefix + req.Node, Organizations: []string{NodesGroup}, Client: true,
	})
	if err != nil {
		return nil, err
	}
	serving, err := a.Sign(servingKey, kubeletProfile(req.Node, ips))
	if err != nil {
		return nil, err
	}
	encode := func(der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return &joinResponse{CA: a.pem, Client: encode(client), Serving: encode(serving)}, nil
}

func requestKey(data []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("no certificate request in PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	// The signature proves that the sender holds the key.
	return csr.PublicKey, csr.CheckSignature()
}
