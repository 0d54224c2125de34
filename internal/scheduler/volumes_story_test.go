package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/scheduler"
)

func (w *world) create(res client.Resource, obj client.Object) {
	w.Helper()
	if _, err := w.client.Create(w.Context(), res, obj); err != nil {
		w.Fatal(err)
	}
}

// change edits an object, or a subresource.
func change[T client.Object](w *world, res client.Resource, namespace, name string, edit func(T), sub ...string) {
	w.Helper()
	obj, err := client.Get[T](w.Context(), w.client, res, namespace, name)
	if err != nil {
		w.Fatal(err)
	}
	obj = obj.DeepCopyObject().(T)
	edit(obj)
	if _, err := w.client.Update(w.Context(), res, obj, sub...); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) class(name, provisioner string, mode storagev1.VolumeBindingMode, edit ...func(*storagev1.StorageClass)) {
	w.Helper()
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	for _, f := range edit {
		f(c)
	}
	w.create(client.StorageClasses, c)
	synctest.Wait()
}

func claim(name, class, size string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
}

func (w *world) claim(name, class, size string, modes ...corev1.PersistentVolumeAccessMode) {
	w.Helper()
	w.create(client.PersistentVolumeClaims, claim(name, class, size, modes...))
	synctest.Wait()
}

// localVolume is a volume of a class on one host; "": on all.
func localVolume(name, class, size, host string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}}
	if host != "" {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}}}}}
	}
	return v
}

func (w *world) volume(v *corev1.PersistentVolume) {
	w.Helper()
	w.create(client.PersistentVolumes, v)
	change(w, client.PersistentVolumes, "", v.Name, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable }, "status")
}

// bindClaim does what the binder does with a volume that is set aside.
func (w *world) bindClaim(claimName, volume string) {
	w.Helper()
	c, err := client.Get[*corev1.PersistentVolumeClaim](w.Context(), w.client, client.PersistentVolumeClaims, "default", claimName)
	if err != nil {
		w.Fatal(err)
	}
	change(w, client.PersistentVolumes, "", volume, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: claimName, UID: c.UID}
	})
	change(w, client.PersistentVolumeClaims, "default", claimName, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	})
}

func (w *world) claimed(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	c, err := client.Get[*corev1.PersistentVolumeClaim](w.Context(), w.client, client.PersistentVolumeClaims, "default", name)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// asideFor is which claim a volume is set aside for.
func (w *world) asideFor(volume string) string {
	w.Helper()
	v, err := client.Get[*corev1.PersistentVolume](w.Context(), w.client, client.PersistentVolumes, "", volume)
	if err != nil {
		w.Fatal(err)
	}
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Name
}

func using(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
}

func host(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: n.Name} }

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func (w *world) refused(pod, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.scheduled(pod).Message; !strings.HasPrefix(got, want) {
		w.Errorf("%s: %q, want %q", pod, got, want)
	}
}

const (
	wait = storagev1.VolumeBindingWaitForFirstConsumer
	now  = storagev1.VolumeBindingImmediate
)

// A claim that is to be bound at once is waited for; then the pod goes where
// its volume is, by affinity and zone.
func TestGoesWhereItsVolumeIs(t *testing.T) {
	story(t, nil, func(w *world) {
		w.class("fast", "example.com/disk", now)
		w.node("a", "4", host, inZone("z1"))
		w.node("b", "4", host, inZone("z2"))
		w.pod("p", "1", using("data"))
		w.refused("p", `0/2 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`)
		w.claim("data", "fast", "1Gi")
		w.refused("p", `0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.`)
		w.volume(localVolume("v", "fast", "1Gi", "b"))
		w.bindClaim("data", "v")
		w.expect("its claim is bound", "p=b")

		far := localVolume("far", "fast", "1Gi", "c")
		w.claim("there", "fast", "1Gi")
		w.volume(far)
		w.bindClaim("there", "far")
		w.pod("q", "1", using("there"))
		w.refused("q", "0/2 nodes are available: 2 node(s) had volume node affinity conflict. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
		w.node("c", "4", host)
		time.Sleep(time.Minute) // a back-off
		w.expect("a node came that reaches it", "p=b q=c")
	})
}

func TestZoneOfVolume(t *testing.T) {
	story(t, nil, func(w *world) {
		w.class("fast", "example.com/disk", now)
		w.node("a", "4", host, inZone("z1"))
		w.node("b", "4", host, inZone("z2"))
		v := localVolume("v", "fast", "1Gi", "")
		v.Labels = map[string]string{corev1.LabelTopologyZone: "z2__z3"}
		w.volume(v)
		w.claim("data", "fast", "1Gi")
		w.bindClaim("data", "v")
		w.pod("big", "5", using("data"))
		w.refused("big", "0/2 nodes are available: 2 Insufficient cpu.")
		w.pod("small", "1", using("data"))
		w.expect("only b is in a zone of its volume", "big= small=b")
		change(w, client.Nodes, "", "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.pod("late", "1", using("data"))
		w.refused("late", "0/2 nodes are available: 1 node(s) had no available volume zone, 1 node(s) were unschedulable.")
	})
}

// A volume is chosen on the node, set aside, and the pod waits for its binding
// while others are placed.
func TestSetsVolumesAside(t *testing.T) {
	story(t, nil, func(w *world) {
		w.class("local", "kubernetes.io/no-provisioner", wait)
		w.node("a", "4", host)
		w.node("b", "4", host)
		w.claim("data", "local", "2Gi")
		w.pod("p", "1", using("data"))
		w.refused("p", "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
		w.volume(localVolume("small", "local", "1Gi", "a"))
		w.volume(localVolume("large", "local", "5Gi", "b"))
		w.volume(localVolume("right", "local", "2Gi", "b"))
		time.Sleep(time.Minute)
		w.expect("it waits for its volume", "p=")
		if got := w.asideFor("right") + w.asideFor("large") + w.asideFor("small"); got != "data" {
			w.Errorf("right, large, small are set aside for %s", got)
		}
		w.pod("other", "4", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"} })
		w.pod("next", "1")
		w.expect("its place is kept, nobody waits for it", "next=a other= p=")
		w.bindClaim("data", "right")
		w.expect("its volume is bound", "next=a other= p=b")
	})
}

// A node is selected for what is to be provisioned; when that fails there,
// another is chosen.
func TestSelectsNodes(t *testing.T) {
	const selected = "volume.kubernetes.io/selected-node"
	story(t, nil, func(w *world) {
		w.class("made", "example.com/disk", wait, func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelHostname, Values: []string{"b", "c"}}}}}
		})
		w.node("a", "4", host)
		w.node("b", "4", host)
		w.claim("data", "made", "2Gi")
		w.pod("p", "1", using("data"))
		w.expect("it waits for its volume", "p=")
		if got := w.claimed("data").Annotations[selected]; got != "b" {
			w.Errorf("selected %q, want b", got)
		}
		change(w, client.Nodes, "", "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.node("c", "4", host)
		change(w, client.PersistentVolumeClaims, "default", "data", func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, selected) })
		time.Sleep(5 * time.Second)
		w.expect("it waits again", "p=")
		if got := w.claimed("data").Annotations[selected]; got != "c" {
			w.Errorf("selected %q, want c", got)
		}
		w.volume(localVolume("v", "made", "2Gi", "c"))
		w.bindClaim("data", "v")
		w.expect("it was provisioned", "p=c")
		if events := strings.Join(w.events, "\n"); !strings.Contains(events, `p FailedScheduling binding volumes: the provisioner could not make a volume for claim "data" on node b`) {
			w.Errorf("events:\n%s", events)
		}
	})
}

// After the time-out the place is given back; the claim still goes where it was
// to be made, so the pod waits there again.
func TestVolumesTakeTooLong(t *testing.T) {
	story(t, nil, func(w *world) {
		w.stop()
		s := w.startWith(scheduler.Options{Client: w.client, Profiles: []scheduler.Profile{{BindTimeout: 30 * time.Second}}})
		w.class("made", "example.com/disk", wait)
		w.node("a", "4", host)
		w.claim("data", "made", "2Gi")
		w.pod("p", "3", using("data"))
		synctest.Wait()
		if gaps := s.Gaps(); len(gaps) != 1 || gaps[0].On != "PersistentVolumeClaim default/data" {
			w.Errorf("gaps %+v", gaps)
		}
		w.pod("q", "3")
		w.expect("its place is kept", "p= q=")
		time.Sleep(31 * time.Second)
		w.expect("its place is given to another", "p= q=a")
		if events := strings.Join(w.events, "\n"); !strings.Contains(events, "p FailedScheduling binding volumes: timed out waiting for the condition") {
			w.Errorf("events:\n%s", events)
		}
	})
}

// A node takes what its driver allows, and what is gone makes room.
func TestVolumeLimits(t *testing.T) {
	story(t, nil, func(w *world) {
		w.class("csi", "disk.example.com", now)
		w.node("a", "40", host)
		w.create(client.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "disk.example.com", NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}}}}})
		for i := range 4 {
			name := fmt.Sprint("d", i)
			v := localVolume(name, "csi", "1Gi", "")
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}}
			w.claim(name, "csi", "1Gi")
			w.volume(v)
			w.bindClaim(name, name)
		}
		w.pod("p0", "1", using("d0"))
		w.pod("p1", "1", using("d1"))
		w.expect("two", "p0=a p1=a")
		w.pod("p2", "1", using("d2"))
		w.pod("again", "1", using("d0"))
		w.expect("no third, but one that is there already", "again=a p0=a p1=a p2=")
		w.refused("p2", "0/1 nodes are available: 1 node(s) exceed max volume count.")
		w.delete(client.Pods, "default", "p0")
		time.Sleep(time.Minute)
		w.expect("its volume is another's as well", "again=a p1=a p2=")
		w.delete(client.Pods, "default", "again")
		time.Sleep(time.Minute)
		w.expect("room", "p1=a p2=a")
		w.pod("p3", "1", using("d3"))
		synctest.Wait()
		change(w, client.CSINodes, "", "a", func(n *storagev1.CSINode) { n.Spec.Drivers = nil })
		change(w, client.CSINodes, "", "a", func(n *storagev1.CSINode) {
			n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "disk.example.com", NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(3))}}}
		})
		time.Sleep(20 * time.Second)
		w.expect("a higher limit", "p1=a p2=a p3=a")
	})
}

// A claim for one pod alone: the next waits for it to go, or makes it go.
func TestReadWriteOncePod(t *testing.T) {
	story(t, nil, func(w *world) {
		w.class("fast", "example.com/disk", now)
		w.node("a", "4", host)
		w.node("b", "4", host)
		v := localVolume("v", "fast", "1Gi", "")
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		w.volume(v)
		w.claim("data", "fast", "1Gi", corev1.ReadWriteOncePod)
		w.bindClaim("data", "v")
		w.pod("first", "1", using("data"), grace(0), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"} })
		w.expect("one", "first=b")
		w.pod("second", "1", using("data"), grace(0))
		w.refused("second", "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.")
		w.delete(client.Pods, "default", "first")
		time.Sleep(20 * time.Second)
		if got := w.pods(); got != "second=a" && got != "second=b" {
			w.Errorf("the claim is free: %s", got)
		}
		w.pod("urgent", "1", using("data"), urgency(9))
		time.Sleep(20 * time.Second)
		if got := w.pods(); got != "urgent=a" && got != "urgent=b" {
			w.Errorf("it makes the other go: %s", got)
		}
	})
}

// A driver that tells how much room there is gets no more than that.
func TestStorageCapacity(t *testing.T) {
	story(t, nil, func(w *world) {
		w.create(client.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}})
		w.class("csi", "disk.example.com", wait)
		w.node("a", "4", host)
		w.node("b", "4", host)
		w.claim("data", "csi", "10Gi")
		w.pod("p", "1", using("data"))
		w.refused("p", "0/2 nodes are available: 2 node(s) did not have enough free storage.")
		for name, size := range map[string]string{"a": "5Gi", "b": "20Gi"} {
			w.create(client.CSIStorageCapacities, &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, StorageClassName: "csi",
				Capacity: new(resource.MustParse(size)), NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: name}}})
		}
		time.Sleep(20 * time.Second)
		if got := w.claimed("data").Annotations["volume.kubernetes.io/selected-node"]; got != "b" {
			w.Errorf("selected %q, want b", got)
		}
	})
}
