package csi_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/controllers/attachdetach"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi"
	"github.com/setpoint-project/setpoint/internal/kubelet/csi/csitest"
	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// patience only decides how long a failing test takes.
const patience = 2 * time.Minute

const name = "disk.example.com"

// rig is a node with a driver, an API server, the loop that attaches and an
// attacher; only the kubelet is left out, whose part the test plays.
type rig struct {
	t   *testing.T
	api client.Interface
	// refused is how often an attachment was asked for that is not there.
	refused *atomic.Int32
	root    string
	driver  *csitest.Driver
	boot    string
	modes   []v1.PersistentVolumeAccessMode // of what bound makes

	mu      sync.Mutex
	m       *csi.Manager    // guarded by mu
	ctx     context.Context // guarded by mu; of the present manager
	kill    context.CancelFunc
	ended   chan struct{}
	changed []types.UID // guarded by mu
	events  []string    // guarded by mu
	wrong   []string    // guarded by mu: what was detached too early
}

func newRig(t *testing.T, change func(*csitest.Driver)) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "csi") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	h := apitest.New(t, apitest.Options{})
	refused := &atomic.Int32{}
	r := &rig{t: t, refused: refused, api: asNode{h.Client("tester"), refused}, root: root, boot: "first", modes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		driver: &csitest.Driver{Name: name, NodeID: "id-of-n1", Folder: filepath.Join(root, "data"), Capabilities: []csitest.Capability{csitest.Stage}}}
	if change != nil {
		change(r.driver)
	}
	r.create(client.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{volumes.ControllerManaged: "true"}}})
	ctx, cancel := context.WithCancel(context.Background())
	loop := attachdetach.New(controllers.Options{Client: h.Client("loops")})
	var wg sync.WaitGroup
	wg.Go(func() { loop.Run(ctx) })
	wg.Go(func() { r.attach(ctx, h.Client("attacher")) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	r.driver.Serve(t, r.socket())
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// asNode answers as a node is answered that asks for an attachment which is not
// there: as for that of another.
type asNode struct {
	client.Interface
	refused *atomic.Int32
}

func (n asNode) Get(ctx context.Context, res client.Resource, namespace, name string) (client.Object, error) {
	o, err := n.Interface.Get(ctx, res, namespace, name)
	if res == client.VolumeAttachments && apierrors.IsNotFound(err) {
		n.refused.Add(1)
		err = apierrors.NewForbidden(res.GroupResource(), name, fmt.Errorf("no relationship found"))
	}
	return o, err
}

func (r *rig) socket() string { return filepath.Join(r.root, "plugins", name, "csi.sock") }

// start makes a manager, as a kubelet does that starts, and registers the driver.
func (r *rig) start() {
	r.t.Helper()
	m, err := csi.New(csi.Options{Root: r.root, Node: "n1", Client: r.api, Events: r, Boot: r.boot, Logger: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
		Secret: func(ctx context.Context, namespace, name string) (*v1.Secret, error) {
			return client.Get[*v1.Secret](ctx, r.api, client.Secrets, namespace, name)
		},
		Token: func(_ context.Context, pod *v1.Pod, audience string, seconds int64) (string, time.Time, error) {
			return fmt.Sprintf("%s for %s, %d", pod.Name, audience, seconds), time.Unix(2e9, 0), nil
		},
		Changed: func(uid types.UID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changed = append(r.changed, uid)
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	if err := m.Register(ctx, r.plugin()); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.m, r.ctx, r.kill, r.ended = m, ctx, cancel, ended
	r.mu.Unlock()
}

func (r *rig) plugin() plugin.Plugin {
	return plugin.Plugin{Type: plugin.CSI, Name: name, Endpoint: r.socket(), Versions: []string{"1.0.0"}}
}

// stop ends the manager and waits until nothing of it runs any more.
func (r *rig) stop() {
	r.mu.Lock()
	kill, ended := r.kill, r.ended
	r.mu.Unlock()
	kill()
	<-ended
}

// now is the present manager and its life.
func (r *rig) now() (*csi.Manager, context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m, r.ctx
}

// Pod takes down events.
func (r *rig) Pod(pod *v1.Pod, _, kind, reason, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s: %s", pod.Name, reason, fmt.Sprintf(format, args...)))
}

// attach plays the driver's attacher, and minds that nothing is detached that is
// mounted.
func (r *rig) attach(ctx context.Context, c client.Interface) {
	v := c.View(client.VolumeAttachments, client.ViewOptions{})
	news := make(chan string, 100)
	defer v.Handle(func(_, new client.Object) {
		if new != nil {
			news <- new.GetName()
		}
	})()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-news:
			a, err := client.Get[*storagev1.VolumeAttachment](ctx, c, client.VolumeAttachments, "", at)
			if err != nil {
				continue
			}
			a = a.DeepCopy()
			switch {
			case a.DeletionTimestamp != nil:
				if left := r.driver.Left(); len(left) > 0 {
					r.mu.Lock()
					r.wrong = append(r.wrong, fmt.Sprintf("detached while %v", left))
					r.mu.Unlock()
				}
				a.Finalizers = nil
				_, _ = c.Update(ctx, client.VolumeAttachments, a)
			case len(a.Finalizers) == 0:
				a.Finalizers = []string{"example.com/attacher"}
				_, _ = c.Update(ctx, client.VolumeAttachments, a)
			case !a.Status.Attached:
				a.Status.Attached, a.Status.AttachmentMetadata = true, map[string]string{"device": "sdz"}
				_, _ = c.Update(ctx, client.VolumeAttachments, a, "status")
			}
		}
	}
}

func (r *rig) create(res client.Resource, obj client.Object) client.Object {
	r.t.Helper()
	got, err := r.api.Create(context.Background(), res, obj)
	if err != nil {
		r.t.Fatalf("create %s %s: %v", res.Resource, obj.GetName(), err)
	}
	return got
}

func (r *rig) edit(res client.Resource, namespace, name string, change func(client.Object), sub ...string) {
	r.t.Helper()
	for {
		obj, err := r.api.Get(context.Background(), res, namespace, name)
		if err != nil {
			r.t.Fatal(err)
		}
		obj = obj.DeepCopyObject().(client.Object)
		change(obj)
		if _, err = r.api.Update(context.Background(), res, obj, sub...); err == nil {
			return
		} else if !apierrors.IsConflict(err) {
			r.t.Fatal(err)
		}
	}
}

// bound makes a volume of the driver and its claim.
func (r *rig) bound(name string, change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	r.t.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	c := r.create(client.PersistentVolumeClaims, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{volumes.BindCompleted: volumes.Yes}},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: r.modes, VolumeName: name, StorageClassName: new("x"),
			Resources: v1.VolumeResourceRequirements{Requests: size}}}).(*v1.PersistentVolumeClaim)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: c.Spec.AccessModes, StorageClassName: "x", ClaimRef: volumes.RefTo(c),
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: r.driver.Name, VolumeHandle: "h-" + name}}}}
	for _, f := range change {
		f(pv)
	}
	pv = r.create(client.PersistentVolumes, pv).(*v1.PersistentVolume)
	r.edit(client.PersistentVolumeClaims, "default", name, func(obj client.Object) {
		c := obj.(*v1.PersistentVolumeClaim)
		c.Status.Phase, c.Status.Capacity = v1.ClaimBound, size
	}, "status")
	return pv
}

func (r *rig) pod(name, claim string) *v1.Pod {
	r.t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "i"}}, ServiceAccountName: "robot"}}
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	if claim != "" {
		p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	return r.create(client.Pods, p).(*v1.Pod)
}

// mount has a pod's volume mounted, as the kubelet asks for it.
func (r *rig) mount(pod *v1.Pod, pv *v1.PersistentVolume, change ...func(*volume.DriverVolume)) error {
	m, ctx := r.now()
	v := volume.DriverVolume{Pod: pod, Name: "v", Volume: pv}
	for _, f := range change {
		f(&v)
	}
	_, err := m.Mount(ctx, v)
	return err
}

func (r *rig) tearDown(pod *v1.Pod) error {
	m, ctx := r.now()
	return m.TearDown(ctx, pod.UID)
}

func (r *rig) delete(pod *v1.Pod) {
	r.t.Helper()
	if err := r.api.Delete(context.Background(), client.Pods, pod.Namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// await waits until ok says "".
func (r *rig) await(what string, ok func() string) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		why := ok()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: %s; the driver was called: %q", what, why, r.driver.Calls())
		}
	}
}

// awaitCalls waits until the driver has been called just so.
func (r *rig) awaitCalls(want ...string) {
	r.t.Helper()
	r.await("calls", func() string {
		if got := r.driver.Calls(); !slices.Equal(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// awaitGone waits until nothing of any volume is left: with the driver, on the
// disk, on the Node, attached. And that nobody did anything wrong.
func (r *rig) awaitGone() {
	r.t.Helper()
	r.await("everything is taken back", func() string {
		if left := r.driver.Left(); len(left) > 0 {
			return fmt.Sprint(left)
		}
		for _, pattern := range []string{"plugins/kubernetes.io/csi/*/*", "pods/*/volumes/kubernetes.io~csi/*"} {
			if left, err := filepath.Glob(filepath.Join(r.root, pattern)); err != nil || len(left) > 0 {
				return fmt.Sprint(left, err)
			}
		}
		n, err := client.Get[*v1.Node](context.Background(), r.api, client.Nodes, "", "n1")
		if err != nil || len(n.Status.VolumesInUse)+len(n.Status.VolumesAttached) > 0 {
			return fmt.Sprintf("the node says %v, %v", n.Status, err)
		}
		if list, _, err := r.api.List(context.Background(), client.VolumeAttachments, "", metav1.ListOptions{}); err != nil || len(list) > 0 {
			return fmt.Sprintf("%d attachments, %v", len(list), err)
		}
		return ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrong := append(r.driver.Wrong(), r.wrong...); len(wrong) > 0 {
		r.t.Errorf("asked in the wrong order: %q", wrong)
	}
}
