package image

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri/critest"
)

type events []string

func (e *events) Pod(_ *v1.Pod, _, _, reason, format string, args ...any) {
	*e = append(*e, reason+": "+fmt.Sprintf(format, args...))
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		server, image string
		want          bool
	}{
		{"reg.example", "reg.example/a/b:1", true}, {"https://reg.example/v2/", "reg.example/a", true}, {"reg.example:5000", "reg.example/a", false},
		{"reg.example:5000", "reg.example:5000/a", true}, {"*.example", "reg.example/a", true}, {"*.example", "a.reg.example/a", false},
		{"reg.example/team", "reg.example/team/a", true}, {"reg.example/team", "reg.example/teams/a", false}, {"https://index.docker.io/v1/", "busybox", true}, {"docker.io", "library/busybox:1", true},
	} {
		if got := Matches(c.server, c.image); got != c.want {
			t.Errorf("%s for %s: %v", c.server, c.image, got)
		}
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{"a": "a:latest", "a:1": "a:1", "r:5000/a": "r:5000/a:latest", "a@sha256:" + strings.Repeat("0", 64): "a@sha256:" + strings.Repeat("0", 64), "UP": ""} {
		if got, err := normalize(in); got != want || (err != nil) != (want == "") {
			t.Errorf("%s becomes %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("user:pass:word"))
	p := New(Options{Events: &events{}, Secrets: func(_ context.Context, ns, name string) (*v1.Secret, error) {
		if name != "pull" {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		}
		return &v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(
			`{"auths":{"reg.example":{"auth":"` + auth + `"},"reg.example/team":{"username":"t","password":"p"},"other.example":{"auth":"x"}}}`)}}, nil
	}})
	pod := &v1.Pod{Spec: v1.PodSpec{ImagePullSecrets: []v1.LocalObjectReference{{Name: "none"}, {Name: "pull"}}}}
	got, err := p.credentials(t.Context(), pod, "reg.example/team/a:1")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Username != "t" || got[1].Username != "user" || got[1].Password != "pass:word" {
		t.Errorf("credentials are %v", got)
	}
	for _, a := range got {
		if a.ServerAddress != "" {
			t.Errorf("the runtime is to compare %q with the image's host once more", a.ServerAddress)
		}
	}
}

func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ev events
		rt := critest.New("here:1")
		p := New(Options{Images: rt, Events: &ev})
		pod := &v1.Pod{}
		ensure := func(img string, policy v1.PullPolicy) (string, string) {
			ref, err := p.Ensure(t.Context(), pod, OfVolume(&v1.ImageVolumeSource{Reference: img, PullPolicy: policy}), nil)
			var e *Error
			if errors.As(err, &e) {
				return ref, e.Reason
			} else if err != nil {
				t.Fatal(err)
			}
			return ref, ""
		}
		for _, c := range []struct {
			img         string
			policy      v1.PullPolicy
			ref, reason string
			pulls       int
		}{
			{"here:1", v1.PullIfNotPresent, "id-of-here:1", "", 0}, {"here:1", v1.PullNever, "id-of-here:1", "", 0}, {"here:1", v1.PullAlways, "id-of-here:1", "", 1},
			{"new:1", v1.PullNever, "", ErrNeverPull, 1}, {"new:1", v1.PullIfNotPresent, "id-of-new:1", "", 2}, {"new:1", v1.PullIfNotPresent, "id-of-new:1", "", 2},
			{"missing:1", v1.PullIfNotPresent, "", ErrImagePull, 3}, {"missing:1", v1.PullIfNotPresent, "", ImagePullBackOff, 3}, {"NO", v1.PullAlways, "", InvalidImageName, 3},
		} {
			ref, reason := ensure(c.img, c.policy)
			if ref != c.ref || reason != c.reason || len(rt.Calls()) != c.pulls {
				t.Errorf("%s %s: %q %q after %d pulls, want %q %q %d", c.img, c.policy, ref, reason, len(rt.Calls()), c.ref, c.reason, c.pulls)
			}
		}
		// 10 s, then 20 s.
		time.Sleep(firstBackoff + time.Millisecond)
		if _, r := ensure("missing:1", ""); r != ErrImagePull {
			t.Errorf("after the back-off: %q", r)
		}
		time.Sleep(firstBackoff + time.Millisecond)
		if _, r := ensure("missing:1", ""); r != ImagePullBackOff {
			t.Errorf("within the next back-off: %q", r)
		}
		if want := `Pulled: Successfully pulled image "new:1" in 0s (0s including waiting). Image size: 1000 bytes.`; !strings.Contains(strings.Join(ev, "\n"), want) {
			t.Errorf("no %q in %q", want, ev)
		}
	})
}
