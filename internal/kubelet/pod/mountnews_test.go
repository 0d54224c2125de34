package pod_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kubelet/pod"
	"github.com/setpoint-project/setpoint/internal/kubelet/podcertificate"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/loop"
)

// slowSigner never has a certificate and takes a second to say so. The first
// time an answer comes meanwhile.
type slowSigner struct {
	worker *pod.Worker
	began  time.Time
	asked  []time.Duration
}

func (s *slowSigner) Get(context.Context, *v1.Pod, string, int, *v1.PodCertificateProjection) (podcertificate.Credentials, time.Time, error) {
	if s.asked = append(s.asked, time.Since(s.began)); len(s.asked) == 1 {
		time.Sleep(time.Second / 2)
		s.worker.WakeObject()
	}
	time.Sleep(time.Second / 2)
	return podcertificate.Credentials{}, time.Time{}, errors.New("not yet")
}

func (s *slowSigner) Forget(types.UID) {}

// TestNewsWhileMounting: what changes while volumes are being made is looked at
// at once when they could not be made, not after the back-off. Meanwhile the pod
// says why they could not.
func TestNewsWhileMounting(t *testing.T) {
	bubble(t, `
spec:
  volumes: [{name: id, projected: {sources: [{podCertificate: {signerName: example.com/s, keyType: ED25519, keyPath: key}}]}}]
  containers: [{name: main, image: "img:1", terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: IfNotPresent}]
`, func(w *world) {
		w.stop()
		s := &slowSigner{}
		var said []string
		w.deps.Observe = func(_ loop.Key, o loop.Outcome, _ error, _ time.Duration) {
			if strings.HasPrefix(o.Reason, "could not ") {
				said = append(said, o.Reason)
			}
		}
		w.deps.Volumes = volume.New(volume.Options{Root: t.TempDir(), Objects: w.deps.Objects, Certificates: s})
		s.began = time.Now()
		s.worker = pod.New(w.deps, w.get())
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel, w.done = cancel, make(chan struct{})
		go func() {
			defer close(w.done)
			s.worker.Run(ctx)
		}()
		w.after(2 * time.Second)
		if want := []time.Duration{0, time.Second}; len(s.asked) < 2 || !slices.Equal(s.asked[:2], want) {
			t.Errorf("looked after %v, want %v", s.asked, want)
		}
		w.after(100 * time.Millisecond)
		if n := len(s.asked); n != 2 {
			t.Errorf("looked %d times: without news there is a back-off", n)
		}
		if len(said) == 0 || !strings.HasSuffix(said[len(said)-1], "not yet") {
			t.Errorf("it said %q", said)
		}
	})
}
