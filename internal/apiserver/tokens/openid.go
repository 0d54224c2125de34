package tokens

import (
	"encoding/json"
	"net/http"

	"github.com/go-jose/go-jose/v4"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

// Paths of the documents by which others can check service account tokens.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// OpenID returns the handlers of the two paths. server is where clients reach
// the API server: "https://10.96.0.1".
func OpenID(signer *authn.Signer, server string) map[string]http.Handler {
	key := signer.Key()
	configuration := struct {
		Issuer        string   `json:"issuer"`
		KeysURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{signer.Issuer, server + KeysPath, []string{"id_token"}, []string{"public"}, []string{key.Algorithm}}
	return map[string]http.Handler{
		ConfigurationPath: document("application/json", configuration),
		KeysPath:          document("application/jwk-set+json", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}}),
	}
}

func document(contentType string, content any) http.Handler {
	body, err := json.Marshal(content)
	if err != nil {
		panic(err) // strings and public keys can always be written
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(body)
	})
}
