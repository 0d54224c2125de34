package localpath_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/controllertest"
	provision "github.com/setpoint-project/setpoint/internal/controllers/localpath"
	"github.com/setpoint-project/setpoint/internal/controllers/persistentvolume"
	"github.com/setpoint-project/setpoint/internal/controllers/pvcprotection"
	"github.com/setpoint-project/setpoint/internal/controllers/pvprotection"
	"github.com/setpoint-project/setpoint/internal/controllers/volumeexpand"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// disk remembers folders. Every so often a step fails half way.
type disk struct {
	mu    sync.Mutex
	there map[string]int // folders; guarded by mu
	steps int            // guarded by mu
}

var errDisk = errors.New("no space left on device")

func (d *disk) Make(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.steps++; d.steps%7 == 3 {
		return errDisk
	}
	d.there[path]++
	return nil
}

func (d *disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.there, path)
	return nil
}

func (d *disk) Prune(path string) { _ = d.Remove(path) }

func (d *disk) List(folder string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for path := range d.there {
		if filepath.Dir(path) == folder {
			out = append(out, path)
		}
	}
	return out, nil
}

func (d *disk) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for path := range d.there {
		_, claim, _ := strings.Cut(filepath.Base(path), "_") // the rest is a uid
		out = append(out, filepath.Dir(path)+"/"+claim)
	}
	sort.Strings(out)
	return "folders: " + strings.Join(out, " ")
}

// selects plays the scheduler: it selects a node for each claim that has none.
type selects struct {
	*loop.Loop
	client client.Interface
	claims client.View
	nodes  client.View
}

func newSelects(o controllers.Options) controllers.Controller {
	s := &selects{client: o.Client, claims: o.Client.View(client.PersistentVolumeClaims, client.ViewOptions{}), nodes: o.Client.View(client.Nodes, client.ViewOptions{})}
	s.Loop = controllers.NewLoop(o, "selects", 1, s.reconcile)
	return s
}

func (s *selects) Run(ctx context.Context) error {
	return controllers.Run(ctx, s.Loop, controllers.Input{View: s.claims, Changed: func(old, new client.Object) {
		s.LookAfter(controllers.KeyOf(controllers.Present(old, new)), time.Second)
	}}, controllers.Input{View: s.nodes})
}

func (s *selects) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	claim := client.In[*corev1.PersistentVolumeClaim](s.claims, key.Namespace, key.Name)
	if claim == nil || claim.Spec.VolumeName != "" || claim.Annotations[volumes.SelectedNode] != "" || claim.Labels["unused"] != "" {
		return loop.Done(), nil
	}
	node := claim.Labels["on"]
	if s.nodes.Get("", node) == nil {
		node = "n1"
	}
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, volumes.SelectedNode, node)
	_, err := s.client.Update(ctx, client.PersistentVolumeClaims, changed)
	return loop.Done(), err
}

// TestConverges: claims get their folders on the nodes that the scheduler
// selects, one of which goes; claims that go take theirs along, unless the
// policy retains them; a volume that is deleted under its claim keeps its
// folder. Binder, protection and the keepers of two nodes play
// along, and all of them crash.
func TestConverges(t *testing.T) {
	disks := map[*controllertest.World]*disk{}
	var now *disk
	var mu sync.Mutex
	var last []controllers.Controller // made; guarded by mu
	controllertest.Run(t, controllertest.Case{
		Runs: 100,
		Loops: func(o controllers.Options) []controllers.Controller {
			loops := []controllers.Controller{provision.New(o), persistentvolume.New(o), pvcprotection.New(o), pvprotection.New(o), volumeexpand.New(o)}
			for _, node := range []string{"n1", "n2"} {
				loops = append(loops, localpath.NewKeeper(localpath.KeeperOptions{Client: o.Client, Node: node, Folder: "/" + node, Disk: now}))
			}
			mu.Lock()
			defer mu.Unlock()
			last = loops
			return loops
		},
		Others: func(o controllers.Options) []controllers.Controller {
			return []controllers.Controller{newSelects(o)}
		},
		Start: func(w *controllertest.World) {
			now = &disk{there: map[string]int{}}
			disks[w] = now
			start(w)
			now.there[doomed(w).Spec.Local.Path] = 1
		},
		Meanwhile: func(w *controllertest.World) {
			w.Delete(client.PersistentVolumeClaims, "default", "goes", metav1.DeleteOptions{})
			w.Delete(client.Nodes, "", "n3", metav1.DeleteOptions{})
			w.Create(client.PersistentVolumeClaims, claim("late", localpath.ClassName, "n2", "1Gi"))
			doomed := w.Get(client.PersistentVolumeClaims, "default", "doomed").(*corev1.PersistentVolumeClaim)
			w.Delete(client.PersistentVolumes, "", doomed.Spec.VolumeName, metav1.DeleteOptions{})
		},
		End: func(w *controllertest.World) string {
			return disks[w].text() + "\n" + w.Lines(client.PersistentVolumeClaims, func(obj client.Object) string {
				c := obj.(*corev1.PersistentVolumeClaim)
				return fmt.Sprintf("%s %s %v", c.Name, c.Status.Phase, c.Finalizers)
			}) + w.Lines(client.PersistentVolumes, func(obj client.Object) string {
				v := obj.(*corev1.PersistentVolume)
				return fmt.Sprintf("%s %s on %s made=%t", v.Spec.ClaimRef.Name, v.Status.Phase, v.Labels[localpath.NodeLabel], localpath.Made(v))
			})
		},
		Check: func(w *controllertest.World) error {
			for _, obj := range w.List(client.PersistentVolumes) {
				v := obj.(*corev1.PersistentVolume)
				disks[w].mu.Lock()
				n := disks[w].there[v.Spec.Local.Path]
				disks[w].mu.Unlock()
				if n == 0 {
					return fmt.Errorf("volume %s has no folder", v.Name)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range last {
				for _, g := range l.Gaps() { // one cannot be made, one has no pod, one is deleted under its claim
					v, _ := w.Get(client.PersistentVolumes, "", g.Key.Name).(*corev1.PersistentVolume)
					if g.Key.Name != "shared" && g.Key.Name != "unused" && (v == nil || v.Spec.ClaimRef.Name != "doomed") {
						return fmt.Errorf("loop %s still waits: %+v", l.Name(), g)
					}
				}
			}
			return nil
		},
	})
}

func claim(name, class, node, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"on": node}}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}

func start(w *controllertest.World) {
	for _, name := range []string{"n1", "n2", "n3"} { // n3 keeps no volumes
		w.Create(client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
	}
	retain := localpath.Class()
	retain.Name, retain.Annotations, retain.ReclaimPolicy = "retain", nil, new(corev1.PersistentVolumeReclaimRetain)
	w.Create(client.StorageClasses, retain)
	w.Create(client.StorageClasses, localpath.Class())
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("stays", localpath.ClassName, "n1", "1Gi"), claim("other", localpath.ClassName, "n2", "1Gi"),
		claim("goes", localpath.ClassName, "n2", "1Gi"), claim("astray", localpath.ClassName, "n3", "1Gi"), claim("kept", "retain", "n2", "1Gi"),
	} {
		w.Create(client.PersistentVolumeClaims, c)
	}
	shared := claim("shared", localpath.ClassName, "n1", "1Gi")
	shared.Spec.AccessModes[0] = corev1.ReadWriteMany
	w.Create(client.PersistentVolumeClaims, shared)
	unused := claim("unused", localpath.ClassName, "n1", "1Gi")
	unused.Labels["unused"] = "yes"
	w.Create(client.PersistentVolumeClaims, unused)
}

// doomed is a volume that its claim has, and whose folder is there.
func doomed(w *controllertest.World) *corev1.PersistentVolume {
	c := claim("doomed", localpath.ClassName, "n1", "1Gi")
	c.Finalizers = []string{volumes.ClaimProtection}
	c = w.Create(client.PersistentVolumeClaims, c).(*corev1.PersistentVolumeClaim)
	node := w.Get(client.Nodes, "", "n1").(*corev1.Node)
	v := localpath.Volume(c, localpath.Class(), node, "/n1")
	v.Finalizers = []string{localpath.Finalizer, volumes.VolumeProtection}
	w.Create(client.PersistentVolumes, v)
	w.Edit(client.PersistentVolumes, "", v.Name, func(obj client.Object) {
		obj.(*corev1.PersistentVolume).Status.Phase = corev1.VolumeBound
	}, "status")
	w.Edit(client.PersistentVolumeClaims, c.Namespace, c.Name, func(obj client.Object) {
		c := obj.(*corev1.PersistentVolumeClaim)
		c.Spec.VolumeName = v.Name
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volumes.BindCompleted, "yes")
	})
	return v
}
