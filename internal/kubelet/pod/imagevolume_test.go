package pod_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const showing = `
spec:
  volumes: [{name: data, image: {reference: "data:1", pullPolicy: Always}}, {name: more, image: {reference: "img:1"}}]
  containers:
  - {name: main, image: "img:1", command: [run], volumeMounts: [{name: data, mountPath: /data}, {name: more, mountPath: /more, subPath: a/b}]}
  - {name: other, image: "img:1", command: [exit, "0", 1m], volumeMounts: [{name: data, mountPath: /d}]}
`

// Images of volumes are pulled once, handed to the runtime with the
// containers, and told in the status; one that is there already is not pulled.
func TestImageVolume(t *testing.T) {
	bubble(t, showing, func(w *world) {
		p := w.after(10 * time.Second)
		if p.Status.Phase != v1.PodRunning {
			t.Fatalf("the pod is %s, events %q", p.Status.Phase, w.events)
		}
		var data, more []string
		for _, s := range p.Status.ContainerStatuses {
			for _, m := range s.VolumeMounts {
				if m.VolumeStatus == nil || m.VolumeStatus.Image == nil {
					t.Fatalf("%s at %s has no image in its status", m.Name, m.MountPath)
				}
				if ref := m.VolumeStatus.Image.ImageRef; m.Name == "data" {
					data = append(data, ref)
				} else {
					more = append(more, ref)
				}
			}
		}
		if !slices.Equal(data, []string{"id-of-data:1", "id-of-data:1"}) || !slices.Equal(more, []string{"id-of-img:1"}) {
			t.Errorf("the images are %q and %q", data, more)
		}
		mounts := w.rt.Mounts("main")
		at := slices.IndexFunc(mounts, func(m string) bool { return strings.HasPrefix(m, "/more ") })
		if want := "/more id-of-img:1 a/b read-only"; at < 0 || mounts[at] != want {
			t.Errorf("mounts are %q, want %q among them", mounts, want)
		}
		w.after(5 * time.Minute) // other ends and starts again
		pulls := 0
		for _, c := range w.rt.Calls() {
			if c == "PullImage data:1" {
				pulls++
			}
		}
		if pulls != 1 {
			t.Errorf("data:1 was pulled %d times", pulls)
		}
	})
}

// A volume whose image cannot be pulled holds back the containers that mount
// it, and those only; they say why. When the image is there, they start.
func TestImageVolumeIsMissing(t *testing.T) {
	bubble(t, `
spec:
  volumes: [{name: data, image: {reference: "missing:1"}}, {name: never, image: {reference: "late:1", pullPolicy: Never}}]
  containers:
  - {name: plain, image: "img:1", command: [run]}
  - {name: main, image: "img:1", command: [run], volumeMounts: [{name: data, mountPath: /data}]}
  - {name: late, image: "img:1", command: [run], volumeMounts: [{name: never, mountPath: /data}]}
`, func(w *world) {
		state := func(p *v1.Pod, name string) v1.ContainerState {
			for _, s := range p.Status.ContainerStatuses {
				if s.Name == name {
					return s.State
				}
			}
			return v1.ContainerState{}
		}
		p := w.after(5 * time.Second)
		if state(p, "plain").Running == nil {
			t.Errorf("the container without volumes is %+v", state(p, "plain"))
		}
		if s := state(p, "main").Waiting; s == nil || s.Reason != "ImagePullBackOff" || !strings.HasPrefix(s.Message, `Back-off pulling image "missing:1": ErrImagePull: `) {
			t.Errorf("main waits with %+v", s)
		}
		if s := state(p, "late").Waiting; s == nil || s.Reason != "ErrImageNeverPull" || s.Message != `Container image "late:1" is not present with pull policy of Never` {
			t.Errorf("late waits with %+v", s)
		}
		for _, want := range []string{`Failed: Failed to pull image "missing:1": image "missing:1" not found`, "Failed: Error: ErrImagePull"} {
			if !slices.Contains(w.events, want) {
				t.Errorf("no event %q in %q", want, w.events)
			}
		}
		w.rt.AddImage("late:1")
		p = w.after(time.Minute)
		if state(p, "late").Running == nil {
			t.Errorf("with its image there, late is %+v", state(p, "late"))
		}
		if state(p, "main").Running != nil {
			t.Error("main runs without its volume")
		}
	})
}
