package kubelet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Images that nobody uses are old after a while; one that is used again, by
// any of its names, is not.
func TestDisused(t *testing.T) {
	images := []*runtimeapi.Image{{Id: "a"}, {Id: "b", RepoTags: []string{"b:1"}}, {Id: "c", RepoDigests: []string{"c@sha"}}, {Id: "d", Pinned: true}, {Id: "e"}}
	unused := map[string]time.Time{}
	now := time.Now()
	for _, step := range []struct {
		used map[string]bool
		want string
	}{
		{map[string]bool{"a": true, "b:1": true}, ""},
		{map[string]bool{"a": true, "b:1": true, "c@sha": true}, "e"},
		{map[string]bool{"b": true}, "e"},
		{map[string]bool{"e": true}, "ac"},
		{nil, "acb"},
	} {
		got := ""
		for _, img := range disused(images, step.used, unused, now) {
			got += img.Id
		}
		// Of those as old as each other the order says nothing.
		if got == "ca" || got == "cab" {
			got = "ac" + got[2:]
		}
		if got != step.want {
			t.Errorf("at %v with %v used, %q is old, want %q", now, step.used, got, step.want)
		}
		now = now.Add(imageAge)
	}
}

// Pods that show images as volumes are found, until they have ended.
func TestVolumeImageOf(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}}}
	if got := volumeImageOf(p); got != nil {
		t.Errorf("a pod without such a volume is found by %q", got)
	}
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "a"}}})
	if got := volumeImageOf(p); len(got) != 1 {
		t.Errorf("a pod with such a volume is found by %q", got)
	}
	p.Status.Phase = v1.PodFailed
	if got := volumeImageOf(p); got != nil {
		t.Errorf("one that has ended is found by %q", got)
	}
}
