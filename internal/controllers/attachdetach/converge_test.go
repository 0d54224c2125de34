package attachdetach_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/attachdetach"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

const (
	driver  = "disk.example.com"
	folders = "folders.example.com" // asks for no attaching
)

func attachment(volume, node string) string { return volumes.AttachmentName(driver, "h-"+volume, node) }

// bound makes a volume and its claim, both of the volume's name.
func bound(w *controllertest.World, name, of string, mode corev1.PersistentVolumeAccessMode) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	c := w.Create(client.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{volumes.BindCompleted: volumes.Yes}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}, VolumeName: name, StorageClassName: new("x"),
			Resources: corev1.VolumeResourceRequirements{Requests: size}}}).(*corev1.PersistentVolumeClaim)
	w.Create(client.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: "x", ClaimRef: volumes.RefTo(c),
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: of, VolumeHandle: "h-" + name}}}})
}

func node(w *controllertest.World, name string, managed bool, change ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if managed {
		n.Annotations = map[string]string{volumes.ControllerManaged: "true"}
	}
	w.Create(client.Nodes, n)
	w.Edit(client.Nodes, "", name, func(obj client.Object) {
		n := obj.(*corev1.Node)
		ready := corev1.ConditionTrue
		if strings.HasPrefix(name, "dead") {
			ready = corev1.ConditionUnknown
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		for _, f := range change {
			f(n)
		}
	}, "status")
}

// inUse has a node say that it uses a volume, and that it is attached.
func inUse(volume string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		name := volumes.UniqueName(driver, "h-"+volume)
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, name)
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
	}
}

func pod(w *controllertest.World, name, node string, claims ...string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	w.Create(client.Pods, p)
}

// attached makes an attachment as an attacher leaves it.
func attached(w *controllertest.World, volume, node string) {
	name := attachment(volume, node)
	w.Create(client.VolumeAttachments, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{finalizer}},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})
	w.Edit(client.VolumeAttachments, "", name, func(obj client.Object) { obj.(*storagev1.VolumeAttachment).Status.Attached = true }, "status")
}

// TestConverges: pods come, move, end and go, on nodes that answer, do not, are
// out of service, gone, or attach themselves; from attachments left behind.
// Nothing that is mounted is ever detached from a node that answers.
func TestConverges(t *testing.T) {
	var m *machines
	controllertest.Run(t, controllertest.Case{
		Runs: 100,
		Loops: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{attachdetach.New(o)}
		},
		Others: func(o controllers.Options) []controllers.Controller {
			m = &machines{mounted: map[string]string{}}
			return []controllers.Controller{newAttacher(o, m), newKubelet(o, m)}
		},
		Start: start,
		Meanwhile: func(w *controllertest.World) {
			now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
			steps := []func(){
				func() { w.Delete(client.Pods, "default", "moves", now); pod(w, "moved", "n2", "moves") },
				func() { w.Delete(client.Pods, "default", "goes", now) },
				func() { pod(w, "late", "n1", "late") },
				func() { bound(w, "unbound", driver, corev1.ReadWriteOnce) },
				func() { w.Delete(client.Pods, "default", "on-dead", now); pod(w, "replaces", "n2", "stuck") },
				func() {
					w.Edit(client.Pods, "default", "ends", func(obj client.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodSucceeded }, "status")
				},
				func() { w.Delete(client.Nodes, "", "leaves", now); w.Delete(client.Pods, "default", "on-leaves", now) },
			}
			w.Rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			for _, f := range steps {
				f()
				w.Rest(4e9)
			}
		},
		End:   end,
		Check: func(w *controllertest.World) error { return check(w, m) },
	})
}

func start(w *controllertest.World) {
	w.Create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: folders}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	node(w, "n1", true, inUse("ghost"))
	node(w, "n2", true)
	node(w, "leaves", true)
	node(w, "own", false) // attaches by itself
	node(w, "dead", true, inUse("stuck"))
	node(w, "dead-for-good", true, inUse("off"))
	w.Edit(client.Nodes, "", "dead-for-good", func(obj client.Object) {
		n := obj.(*corev1.Node)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	})
	for _, name := range []string{"moves", "goes", "late", "stuck", "ends", "contested", "left", "off", "own", "leaves"} {
		bound(w, name, driver, corev1.ReadWriteOnce)
	}
	bound(w, "shared", driver, corev1.ReadWriteMany)
	bound(w, "folder", folders, corev1.ReadWriteOnce)
	for _, a := range [][2]string{{"left", "n1"}, {"off", "dead-for-good"}, {"stuck", "dead"}, {"lost-volume", "n2"}} {
		attached(w, a[0], a[1])
	}
	for _, p := range [][]string{{"moves", "n1", "moves"}, {"goes", "n1", "goes", "shared"}, {"stays", "n2", "shared", "folder"}, {"ends", "n2", "ends"}, {"on-dead", "dead", "stuck"},
		{"one", "n1", "contested"}, {"other", "n2", "contested"}, {"not-bound", "n1", "unbound"}, {"own", "own", "own"}, {"on-leaves", "leaves", "leaves"}} {
		pod(w, p[0], p[1], p[2:]...)
	}
}

// end leaves out which of two nodes got the volume that both ask for.
func end(w *controllertest.World) string {
	return w.Lines(client.VolumeAttachments, func(obj client.Object) string {
		a := obj.(*storagev1.VolumeAttachment)
		if *a.Spec.Source.PersistentVolumeName == "contested" {
			return fmt.Sprintf("contested attached=%t", a.Status.Attached)
		}
		return fmt.Sprintf("%s on %s attached=%t", *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName, a.Status.Attached)
	}) + w.Lines(client.Nodes, func(obj client.Object) string {
		n := obj.(*corev1.Node)
		var names []string
		for _, v := range n.Status.VolumesAttached {
			if v.Name != volumes.UniqueName(driver, "h-contested") {
				names = append(names, string(v.Name))
			}
		}
		slices.Sort(names)
		return fmt.Sprint(n.Name, " ", names)
	})
}

func check(w *controllertest.World, m *machines) error {
	want := map[string]bool{attachment("moves", "n2"): true, attachment("late", "n1"): true, attachment("shared", "n2"): true,
		attachment("unbound", "n1"): true, attachment("stuck", "n2"): true}
	contested := 0
	reported := map[string]bool{}
	for _, obj := range w.List(client.Nodes) {
		n := obj.(*corev1.Node)
		for _, v := range n.Status.VolumesAttached {
			d, h, _ := volumes.OfCSI(v.Name)
			reported[volumes.AttachmentName(d, h, n.Name)] = true
		}
	}
	for _, obj := range w.List(client.VolumeAttachments) {
		a := obj.(*storagev1.VolumeAttachment)
		if *a.Spec.Source.PersistentVolumeName == "contested" {
			contested++
		} else if !want[a.Name] {
			return fmt.Errorf("%s is attached to %s", *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName)
		}
		if !reported[a.Name] || a.DeletionTimestamp != nil {
			return fmt.Errorf("the node %s does not say that %s is attached", a.Spec.NodeName, *a.Spec.Source.PersistentVolumeName)
		}
		delete(want, a.Name)
		delete(reported, a.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(want) > 0 || contested != 1:
		return fmt.Errorf("%d attachments are missing, and there are %d of the volume that two ask for", len(want), contested)
	case len(reported) > 0:
		return fmt.Errorf("nodes report %d volumes that are not attached", len(reported))
	case len(m.wrong) > 0:
		return fmt.Errorf("detached while mounted: %v", m.wrong)
	}
	return nil
}
