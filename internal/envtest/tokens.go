package envtest

import (
	"crypto/subtle"
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
)

// staticTokens knows users by the bearer tokens of a file.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file
type staticTokens []staticToken

type staticToken struct {
	token string
	user  *authn.User
}

func readTokens(path string) (staticTokens, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var tokens staticTokens
	for i, record := range records {
		if len(record) < 3 || record[0] == "" {
			return nil, fmt.Errorf("%s, record %d: must be token,user,uid and perhaps \"groups\"", path, i+1)
		}
		user := &authn.User{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			for group := range strings.SplitSeq(record[3], ",") {
				if group = strings.TrimSpace(group); group != "" {
					user.Groups = append(user.Groups, group)
				}
			}
		}
		user.Groups = append(user.Groups, authn.Authenticated)
		tokens = append(tokens, staticToken{record[0], user})
	}
	return tokens, nil
}

// Authenticate implements authn.Authenticator. A token that it does not know
// may be a service account's.
func (t staticTokens) Authenticate(r *http.Request) (*authn.User, error) {
	scheme, shown, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil, nil
	}
	shown = strings.TrimSpace(shown)
	for _, known := range t {
		if subtle.ConstantTimeCompare([]byte(known.token), []byte(shown)) == 1 {
			r.Header.Del("Authorization") // nothing behind this point may see it
			return known.user, nil
		}
	}
	return nil, nil
}
