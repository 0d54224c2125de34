package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A pod comes up, tells the truth about itself, and leaves nothing behind.
func TestLife(t *testing.T) {
	r := newRig(t)
	p := r.pod("web", `
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: setpoint.test/box:1
    command: [sh, -c, 'echo hello $NAME; trap "exit 0" TERM; while :; do sleep 0.1; done']
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
`)
	p = r.await("web", "ready", ready)
	s := p.Status
	if s.Phase != v1.PodRunning || s.PodIP == "" || s.HostIP != "127.0.0.1" || s.QOSClass != v1.PodQOSBurstable || s.StartTime == nil {
		t.Errorf("status is %+v", s)
	}
	c := s.ContainerStatuses[0]
	if !c.Ready || c.Started == nil || !*c.Started || c.RestartCount != 0 || c.Image != box || !strings.HasPrefix(c.ContainerID, "containerd://") || c.ImageID == "" {
		t.Errorf("container status is %+v", c)
	}
	if got := r.log(p, "main", 0); got != "hello web\n" {
		t.Errorf("log is %q", got)
	}
	for _, want := range []string{"Pulled: Container image", "Created: Container created", "Started: Container started"} {
		if !strings.Contains(strings.Join(r.events("web"), "\n"), want) {
			t.Errorf("no event %q in %q", want, r.events("web"))
		}
	}
	r.delete("web", nil)
	r.await("web", "gone", gone)
	if _, err := os.Stat(filepath.Join(r.opts.RootDir, "pods", string(p.UID))); !os.IsNotExist(err) {
		t.Errorf("the pod's folder: %v", err)
	}
	for _, h := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(h, r.cgroups, "kubepods/burstable/pod"+string(p.UID))); !os.IsNotExist(err) {
			t.Errorf("the pod's group in %s: %v", h, err)
		}
	}
}
