package pki

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Token is what an agent needs to join: the hash of the authority, by which it
// knows the right server, and a secret, by which the server knows it. In text:
// HASH::SECRET.
type Token struct {
	CAHash string
	Secret string
}

// String is the form that people copy.
func (t Token) String() string { return t.CAHash + "::" + t.Secret }

// parseToken reads the form that people copy.
func parseToken(s string) (Token, error) {
	hash, secret, ok := strings.Cut(strings.TrimSpace(s), "::")
	if raw, err := hex.DecodeString(hash); !ok || err != nil || len(raw) != 32 || secret == "" {
		return Token{}, fmt.Errorf("join token: want CAHASH::SECRET with a SHA-256 in hexadecimal, as the server wrote it into its file \"token\"")
	}
	return Token{CAHash: strings.ToLower(hash), Secret: secret}, nil
}

// Matches tells whether other is the same token, in constant time.
func (t Token) Matches(other Token) bool {
	return subtle.ConstantTimeCompare([]byte(t.String()), []byte(other.String())) == 1
}

// JoinToken returns the token that lies at path (DATA/token), or makes one. A
// token of another authority is replaced: it could join nobody.
func (a *Authority) JoinToken(path string) (Token, error) {
	unlock, err := lock(a.dir)
	if err != nil {
		return Token{}, fmt.Errorf("pki: join token: %w", err)
	}
	defer unlock()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return Token{}, fmt.Errorf("pki: join token: %w", err)
	}
	if t, err := parseToken(string(data)); err == nil && t.CAHash == a.Hash() {
		return t, nil
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	t := Token{CAHash: a.Hash(), Secret: hex.EncodeToString(secret[:])}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Token{}, fmt.Errorf("pki: join token: %w", err)
	}
	if err := WriteFile(path, []byte(t.String()+"\n"), 0o600, true); err != nil {
		return Token{}, fmt.Errorf("pki: join token: %w", err)
	}
	return t, nil
}
