package kubelet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

// behindPassword serves a registry again, to those only who know a user and
// password; it returns the host.
func behindPassword(r *rig, registry *harness.Registry) string {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry.Host})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, ok := q.BasicAuth(); !ok || user != "u" || password != "p" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	r.t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// An image is a volume: pulled with the pod's secret, mounted read-only, whole
// or a folder of it; it outlives a restart of the kubelet and of a container,
// and nothing of it stays.
func imageVolume(r *rig) {
	t := r.t
	registry := harness.StartRegistry(t)
	registry.Push("data:1", harness.Image{Files: map[string][]byte{
		"/tool": []byte("#!/bin/sh\necho the tool ran\n"), "/dir/sub/file": []byte("in a folder\n")}})
	host := behindPassword(r, registry)
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: "default"}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths": {%q: {"username": "u", "password": "p"}}}`, host)}}
	if _, err := r.client.Create(context.Background(), v1.SchemeGroupVersion.WithResource("secrets"), secret); err != nil {
		t.Fatal(err)
	}
	r.pod("shows", fmt.Sprintf(`
spec:
  terminationGracePeriodSeconds: 1
  imagePullSecrets: [{name: pull}]
  volumes: [{name: v, image: {reference: '%s/data:1', pullPolicy: Always}}]
  initContainers:
  - {name: init, image: setpoint.test/box:1, command: [cat, /part/file], volumeMounts: [{name: v, mountPath: /part, subPath: dir/sub}]}
  containers:
  - {name: main, image: setpoint.test/box:1, command: [sh, -c, '/v/tool; touch /v/x || echo cannot write; %s'], volumeMounts: [{name: v, mountPath: /v}]}
`, host, strings.Trim(forever, "'")))
	p := r.await("shows", "ready", ready)
	r.logged(p, "init", 0, "in a folder\n")
	r.logged(p, "main", 0, "the tool ran\n")
	r.logged(p, "main", 0, "cannot write\n")
	r.logged(p, "main", 0, "Read-only file system")
	ref := ""
	if s := p.Status.ContainerStatuses[0].VolumeMounts[0].VolumeStatus; s != nil && s.Image != nil {
		ref = s.Image.ImageRef
	}
	if !strings.HasPrefix(ref, host+"/data@sha256:") {
		t.Errorf("the status names the image %q", ref)
	}
	sandboxes, err := r.rt.ListPodSandbox(context.Background(), &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{cri.LabelPodUID: string(p.UID)}}})
	if err != nil || len(sandboxes.Items) != 1 {
		t.Fatalf("sandboxes: %v %v", sandboxes, err)
	}
	r.halt()
	r.stopContainer(p, 0)
	r.start()
	r.await("shows", "restarted", func(p *v1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	r.logged(p, "main", 1, "the tool ran\n")
	r.pod("shows-not", fmt.Sprintf(`
spec:
  volumes: [{name: v, image: {reference: '%s/data:1', pullPolicy: Never}}, {name: w, image: {reference: '%s/none:1'}}]
  containers:
  - {name: main, image: setpoint.test/box:1, command: ["true"], volumeMounts: [{name: v, mountPath: /v, subPath: nowhere}]}
  - {name: other, image: setpoint.test/box:1, command: ["true"], volumeMounts: [{name: w, mountPath: /w}]}
`, host, registry.Host))
	q := r.await("shows-not", "refused", func(p *v1.Pod) bool {
		return waiting("CreateContainerError")(p) && len(p.Status.ContainerStatuses) == 2 &&
			p.Status.ContainerStatuses[1].State.Waiting != nil && p.Status.ContainerStatuses[1].State.Waiting.Reason == "ImagePullBackOff"
	})
	if m := q.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, "ImageVolumeMountFailed") || !strings.Contains(m, "nowhere") {
		t.Errorf("the message is %q", m)
	}
	for _, n := range []string{"shows", "shows-not"} {
		r.delete(n, nil)
		r.await(n, "gone", gone)
	}
	r.leftNothing(p)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), filepath.Join("image-volumes", sandboxes.Items[0].Id)) {
		t.Errorf("the image is still mounted:\n%s", mounts)
	}
}

// stopContainer stops a pod's n-th container behind the kubelet's back.
func (r *rig) stopContainer(p *v1.Pod, n int) {
	r.t.Helper()
	if _, err := r.rt.StopContainer(context.Background(), &runtimeapi.StopContainerRequest{
		ContainerId: strings.TrimPrefix(p.Status.ContainerStatuses[n].ContainerID, "containerd://")}); err != nil {
		r.t.Fatal(err)
	}
}
