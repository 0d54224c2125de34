package image

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// entry is one registry's credentials in a docker configuration.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentials are those of the pod's pull secrets that fit an image, the most
// specific first. A secret that does not exist is passed over, as upstream
// does: the image may be public.
func (p *Puller) credentials(ctx context.Context, pod *v1.Pod, image string) ([]*runtimeapi.AuthConfig, error) {
	type match struct {
		server string
		auth   *runtimeapi.AuthConfig
	}
	var found []match
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		secret, err := p.opts.Secrets(ctx, pod.Namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			p.opts.Events.Pod(pod, "", v1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", ref.Name)
			continue
		} else if err != nil {
			return nil, err
		}
		entries, err := decode(secret)
		if err != nil {
			return nil, fmt.Errorf("pull secret %q: %w", ref.Name, err)
		}
		for server, e := range entries {
			if !Matches(server, image) {
				continue
			}
			auth, err := e.auth(server)
			if err != nil {
				return nil, fmt.Errorf("pull secret %q: %w", ref.Name, err)
			}
			found = append(found, match{server, auth})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return len(found[i].server) > len(found[j].server) })
	var out []*runtimeapi.AuthConfig
	for _, m := range found {
		out = append(out, m.auth)
	}
	return out, nil
}

func decode(s *v1.Secret) (map[string]entry, error) {
	if data, ok := s.Data[v1.DockerConfigJsonKey]; ok {
		var c struct {
			Auths map[string]entry `json:"auths"`
		}
		err := json.Unmarshal(data, &c)
		return c.Auths, err
	}
	if data, ok := s.Data[v1.DockerConfigKey]; ok {
		var c map[string]entry
		err := json.Unmarshal(data, &c)
		return c, err
	}
	return nil, fmt.Errorf("has neither %s nor %s", v1.DockerConfigJsonKey, v1.DockerConfigKey)
}

func (e entry) auth(server string) (*runtimeapi.AuthConfig, error) {
	// No ServerAddress: it was matched here, by rules that the runtime does not
	// know (it takes a URL of the very host, and refuses "host:port").
	a := &runtimeapi.AuthConfig{Username: e.Username, Password: e.Password,
		IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
	if e.Auth != "" && e.Username == "" {
		raw, err := base64.StdEncoding.DecodeString(e.Auth)
		if err != nil {
			return nil, fmt.Errorf("auth of %s is not base64", server)
		}
		user, pass, ok := strings.Cut(string(raw), ":")
		if !ok {
			return nil, fmt.Errorf("auth of %s is not user:password", server)
		}
		a.Username, a.Password = user, strings.Trim(pass, "\x00")
	}
	return a, nil
}

// Matches tells whether credentials for server ("https://reg.example:5000/team",
// "*.example.com") are for an image: the host matches part by part, the path
// by prefix. See
// https://kubernetes.io/docs/concepts/containers/images/#config-json.
func Matches(server, image string) bool {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return false
	}
	host, repo := reference.Domain(named), reference.Path(named)
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	wantHost, wantPath, _ := strings.Cut(server, "/")
	if wantHost == "index.docker.io" {
		wantHost = "docker.io"
	}
	wantPath = strings.TrimSuffix(wantPath, "/")
	if wantPath == "v1" || wantPath == "v2" { // docker login writes such
		wantPath = ""
	}
	want, have := strings.Split(wantHost, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return wantPath == "" || strings.HasPrefix(repo+"/", wantPath+"/")
}
