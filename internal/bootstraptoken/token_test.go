package bootstraptoken

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSplit(t *testing.T) {
	for token, want := range map[string]bool{
		"abcdef.0123456789abcdef":  true,
		"abcdef.0123456789abcde":   false,
		"ABCDEF.0123456789abcdef":  false,
		"abcdef.0123456789abcdef.": false,
		"eyJhbGciOi.eyJpc3MiOi.x":  false,
		"abcdef":                   false,
		"":                         false,
	} {
		if _, _, ok := Split(token); ok != want {
			t.Errorf("%q: %t, want %t", token, ok, want)
		}
	}
}

func TestRead(t *testing.T) {
	good := map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef"}
	with := func(key, value string) map[string]string {
		out := map[string]string{key: value}
		for k, v := range good {
			if k != key {
				out[k] = v
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		data   map[string]string
		groups []string
		wrong  string // part of the error
	}{
		"plain":      {good, []string{"system:bootstrappers"}, ""},
		"groups":     {with("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:b"), []string{"system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"}, ""},
		"masters":    {with("auth-extra-groups", "system:bootstrappers:a,system:masters"), nil, `"system:masters" is no group`},
		"other id":   {with("token-id", "ghijkl"), nil, "its name has to be"},
		"no secret":  {with("token-secret", ""), nil, "token-secret is missing"},
		"no id":      {with("token-id", ""), nil, "its name has to be"},
		"empty item": {with("auth-extra-groups", "system:bootstrappers:a,"), nil, `"" is no group`},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Prefix + "abcdef"}, Type: Type, Data: map[string][]byte{}}
		for k, v := range c.data {
			s.Data[k] = []byte(v)
		}
		got, err := Read(s)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: error %v, want %q", name, err, c.wrong)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.wrong == "" && !slices.Equal(got.Groups, c.groups):
			t.Errorf("%s: groups %v, want %v", name, got.Groups, c.groups)
		}
		s.Type = corev1.SecretTypeOpaque
		if _, err := Read(s); err == nil {
			t.Errorf("%s: a Secret of another type is a token", name)
		}
	}
}

func TestExpired(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for text, want := range map[string]bool{
		"":                                false,
		now.Format(time.RFC3339):          true,
		now.Add(1e9).Format(time.RFC3339): false,
		"tomorrow":                        true,
	} {
		tok := Token{Expires: Expires(&corev1.Secret{Data: map[string][]byte{"expiration": []byte(text)}})}
		if got := tok.Expired(now); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
