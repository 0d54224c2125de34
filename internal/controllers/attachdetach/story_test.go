package attachdetach_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/attachdetach"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// heard are the events of a loop, each once as it came.
type heard struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

func (h *heard) Event(obj client.Object, kind, reason, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf("%s %s %s: %s", obj.GetName(), kind, reason, fmt.Sprintf(format, args...)))
}

// TestWhatPeopleAreTold: pods hear once that their volume is attached, why it is
// not, and who has it; the loop says whom it waits for.
func TestWhatPeopleAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := apitest.New(t, apitest.Options{})
		w := &controllertest.World{TB: t, Client: h.Client("tester")}
		events := &heard{}
		l := attachdetach.New(controllers.Options{Client: h.Client("loops"), Events: events})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		defer func() { cancel(); <-done }()
		waits := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			got := ""
			for _, g := range l.Gaps() {
				got += g.On + ": " + g.Reason + "\n"
			}
			if got != want {
				t.Errorf("it waits for %q, want %q", got, want)
			}
		}
		status := func(node string, change func(*storagev1.VolumeAttachmentStatus)) {
			w.Edit(client.VolumeAttachments, "", attachment("disk", node), func(obj client.Object) { change(&obj.(*storagev1.VolumeAttachment).Status) }, "status")
		}
		node(w, "n1", true)
		node(w, "n2", true)
		bound(w, "disk", driver, corev1.ReadWriteOnce)
		pod(w, "first", "n1", "disk")
		waits("VolumeAttachment " + attachment("disk", "n1") + ": its attacher is to attach the volume\n")
		status("n1", func(s *storagev1.VolumeAttachmentStatus) { s.AttachError = &storagev1.VolumeError{Message: "no slot"} })
		waits("VolumeAttachment " + attachment("disk", "n1") + ": its attacher is to attach the volume; it says: no slot\n")
		status("n1", func(s *storagev1.VolumeAttachmentStatus) { s.AttachError, s.Attached = nil, true })
		waits("")
		pod(w, "second", "n2", "disk")
		waits("Node n1: the volume may be attached to one node only, and is to this one\n")
		w.Edit(client.Nodes, "", "n1", func(obj client.Object) {
			obj.(*corev1.Node).Status.VolumesInUse = []corev1.UniqueVolumeName{volumes.UniqueName(driver, "h-disk")}
		}, "status")
		w.Delete(client.Pods, "default", "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		waits("Node n1: it is to unmount the volume, which no pod there needs any more\n")
		w.Edit(client.Nodes, "", "n1", func(obj client.Object) { obj.(*corev1.Node).Status.VolumesInUse = nil }, "status")
		waits("VolumeAttachment " + attachment("disk", "n2") + ": its attacher is to attach the volume\n")
		want := []string{
			`first Warning FailedAttachVolume: AttachVolume.Attach failed for volume "disk" : no slot`,
			`first Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "disk" `,
			`second Warning FailedAttachVolume: Multi-Attach error for volume "disk" Volume is already used by pod(s) first`,
			`second Warning FailedAttachVolume: Multi-Attach error for volume "disk" Volume is already exclusively attached to one node and can't be attached to another`,
		}
		events.mu.Lock()
		defer events.mu.Unlock()
		if !slices.Equal(events.said, want) {
			t.Errorf("people hear\n%q, want\n%q", events.said, want)
		}
	})
}
