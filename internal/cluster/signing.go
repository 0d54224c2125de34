package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/certificates/signing"
	"github.com/setpoint-project/setpoint/internal/controllers/tokensecrets"
	"github.com/setpoint-project/setpoint/internal/pki"
)

// signers are what loops sign with. The zero value signs nothing.
type signers struct {
	authority *pki.Authority // of client certificates
	tokens    *authn.Signer  // of service account tokens
}

// signers are those of the data folder, and what was given instead of them.
func (c *controlPlane) signers() (signers, error) {
	issuer, key, _, err := c.signing()
	if err != nil {
		return signers{}, err
	}
	tokens, err := authn.NewSigner(issuer, key)
	return signers{authority: c.authority, tokens: tokens}, err
}

// signersIn are those that lie in the pki folder of a server's data folder, if
// clients know that server by caPEM. No folder, one that is not ours to read, or
// that of another cluster is no signers: then nothing is signed here.
func signersIn(dir string, caPEM []byte) (signers, error) {
	ca, err := os.Open(filepath.Join(dir, "ca.pem"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return signers{}, nil
	case err != nil:
		return signers{}, fmt.Errorf("the cluster's signing keys: %w", err)
	}
	ca.Close()
	authority, err := pki.Open(dir)
	if err != nil {
		return signers{}, err
	}
	if !bytes.Equal(bytes.TrimSpace(authority.CAPEM()), bytes.TrimSpace(caPEM)) {
		return signers{}, nil
	}
	key, err := authority.ServiceAccountKey()
	if err != nil {
		return signers{}, err
	}
	tokens, err := authn.NewSigner(issuer, key)
	return signers{authority: authority, tokens: tokens}, err
}

// loops are those that need keys, as far as there are any. caPEM is by what
// clients know the API server.
func (s signers) loops(o func(string) controllers.Options, caPEM []byte) (all []controllers.Controller) {
	if s.authority != nil {
		all = append(all, signing.New(o("certificate-controller"), s.authority))
	}
	if s.tokens != nil {
		all = append(all, tokensecrets.New(o("serviceaccount-token-controller"), s.tokens.SignLegacy, caPEM))
	}
	return all
}
