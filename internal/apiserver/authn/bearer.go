package authn

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// TokenAuthenticator finds the user of a bearer token. See ServiceAccounts.
type TokenAuthenticator interface {
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error)
}

// Bearer takes the token out of a request: from the Authorization header or,
// because browsers cannot set that one on a WebSocket, from a subprotocol.
type Bearer struct{ Tokens TokenAuthenticator }

// webSocketPrefix begins the subprotocol that carries a token.
const webSocketPrefix = "base64url.bearer.authorization.k8s.io."

// Authenticate implements Authenticator. The token is taken out of the
// request's headers: nothing behind this point may log or forward it.
func (b Bearer) Authenticate(r *http.Request) (*User, error) {
	token, ok := headerToken(r)
	if !ok {
		var err error
		if token, err = webSocketToken(r); err != nil {
			return nil, err
		}
		if token == "" {
			return nil, nil
		}
	}
	u, _, err := b.Tokens.AuthenticateToken(r.Context(), token, nil)
	return u, err
}

func headerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token = strings.TrimSpace(token)
	r.Header.Del("Authorization")
	return token, token != ""
}

func webSocketToken(r *http.Request) (string, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", nil
	}
	var token string
	var rest []string
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(header, ",") {
			p = strings.TrimSpace(p)
			encoded, ok := strings.CutPrefix(p, webSocketPrefix)
			if !ok {
				rest = append(rest, p)
				continue
			}
			if token != "" {
				return "", errors.New("more than one bearer token in the WebSocket's subprotocols")
			}
			raw, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil || !utf8.Valid(raw) {
				return "", errors.New("the bearer token in the WebSocket's subprotocols is not base64url")
			}
			token = string(raw)
		}
	}
	if token == "" {
		return "", nil
	}
	if len(rest) == 0 {
		// The server must choose one of the protocols that the client offers,
		// and it must not be the token.
		return "", errors.New("a WebSocket with a bearer token needs another subprotocol besides")
	}
	r.Header.Set("Sec-WebSocket-Protocol", strings.Join(rest, ","))
	return token, nil
}
