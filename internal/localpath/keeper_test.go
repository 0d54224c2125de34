package localpath_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/apiserver/apitest"
	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/localpath"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// interrupted is a client to whose first patch of a volume something happens.
type interrupted struct {
	client.Interface
	before func()            // the first patch reaches the server
	after  func(error) error // it was answered; what the keeper is told
	down   atomic.Bool       // every request fails: the keeper is no more
}

var errDown = errors.New("the process has ended")

func (c *interrupted) Patch(ctx context.Context, res client.Resource, namespace, name string, pt types.PatchType, data []byte, sub ...string) (client.Object, error) {
	var before func()
	var after func(error) error
	if res == client.PersistentVolumes {
		before, after = c.before, c.after
		c.before, c.after = nil, nil
	}
	if before != nil {
		before()
	}
	if c.down.Load() {
		return nil, errDown
	}
	obj, err := c.Interface.Patch(ctx, res, namespace, name, pt, data, sub...)
	if after != nil {
		err = after(err)
	}
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// keeping is a server, a folder on this machine's disk, and keepers of node n
// one after the other.
type keeping struct {
	t      *testing.T
	h      *apitest.Harness
	c      client.Interface
	folder string
	end    func()
}

func newKeeping(t *testing.T, folder string) *keeping {
	h := apitest.New(t, apitest.Options{})
	k := &keeping{t: t, h: h, c: h.Client("tester"), folder: folder}
	if _, err := k.c.Create(context.Background(), client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	return k
}

// run starts a keeper, which ends with stop.
func (k *keeping) run(c client.Interface) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	keeper := localpath.NewKeeper(localpath.KeeperOptions{Client: c, Node: "n", Folder: k.folder, Disk: localpath.Host{}})
	go func() { keeper.Run(ctx); close(done) }()
	k.end = func() { cancel(); <-done }
}

func (k *keeping) stop() { k.end() }

// volume makes a volume of node n; finalizers hold it when it is deleted.
func (k *keeping) volume(finalizers ...string) *corev1.PersistentVolume {
	k.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	v := localpath.Volume(claim, localpath.Class(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, k.folder)
	v.Finalizers = finalizers
	made, err := client.Create(context.Background(), k.c, client.PersistentVolumes, v)
	if err != nil {
		k.t.Fatal(err)
	}
	return made
}

func (k *keeping) delete(v *corev1.PersistentVolume) {
	k.t.Helper()
	if err := k.c.Delete(context.Background(), client.PersistentVolumes, "", v.Name, metav1.DeleteOptions{}); err != nil {
		k.t.Error(err)
	}
}

// free takes the finalizer of protection off, as its loop does once no claim
// has the volume.
func (k *keeping) free(v *corev1.PersistentVolume) {
	k.t.Helper()
	data := []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["` + volumes.VolumeProtection + `"]}}`)
	if _, err := k.c.Patch(context.Background(), client.PersistentVolumes, "", v.Name, types.StrategicMergePatchType, data); err != nil {
		k.t.Error(err)
	}
}

// now is the volume as it is, nil when it is gone.
func (k *keeping) now(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	k.t.Helper()
	got, err := client.Get[*corev1.PersistentVolume](context.Background(), k.c, client.PersistentVolumes, "", v.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		k.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return got
}

func (k *keeping) folders() []string {
	k.t.Helper()
	paths, err := localpath.Host{}.List(k.folder)
	if err != nil {
		k.t.Fatal(err)
	}
	return paths
}

// settled lets all go on until nothing does, the back-off after errors included.
func settled() { time.Sleep(time.Minute); synctest.Wait() }

// A keeper makes a folder and then says so on the volume. Whatever comes
// between the two, in the end there is a folder where a volume says that there
// is one, and none where no volume does. The first of these left its folder
// behind: a convergence test found it on a slow machine, where the volume was
// deleted between the keeper's look and its write.
func TestInterruptedMaking(t *testing.T) {
	protected := []string{volumes.VolumeProtection}
	for name, test := range map[string]struct {
		finalizers []string // of the volume
		// Either happens at the keeper's first write, the third once all is
		// settled after it.
		before func(*keeping, *interrupted, *corev1.PersistentVolume)
		after  func(*keeping, *interrupted, *corev1.PersistentVolume, error) error
		then   func(*keeping, *corev1.PersistentVolume)
		there  bool // volume and folder, in the end
	}{
		"deleted and refused": {
			finalizers: protected,
			before:     func(k *keeping, _ *interrupted, v *corev1.PersistentVolume) { k.delete(v) },
			after: func(k *keeping, _ *interrupted, _ *corev1.PersistentVolume, err error) error {
				if err == nil {
					k.t.Error("a finalizer was put on a volume that is being deleted")
				}
				return err
			},
			then: func(k *keeping, v *corev1.PersistentVolume) {
				if got := k.folders(); len(got) > 0 {
					k.t.Errorf("while the volume is held there is %q", got)
				}
				k.free(v)
			},
		},
		"gone": {
			before: func(k *keeping, _ *interrupted, v *corev1.PersistentVolume) { k.delete(v) },
		},
		"gone, and another of its name made": {
			before: func(k *keeping, _ *interrupted, v *corev1.PersistentVolume) { k.delete(v); k.volume() },
			there:  true,
		},
		"the answer is lost": {
			after: func(_ *keeping, _ *interrupted, _ *corev1.PersistentVolume, err error) error {
				return errors.Join(err, apierrors.NewTimeoutError("lost", 0))
			},
			there: true,
		},
		"the answer is lost, and the volume deleted": {
			after: func(k *keeping, _ *interrupted, v *corev1.PersistentVolume, err error) error {
				k.delete(v)
				return errors.Join(err, apierrors.NewTimeoutError("lost", 0))
			},
		},
		"refused once": {
			before: func(k *keeping, c *interrupted, _ *corev1.PersistentVolume) {
				c.down.Store(true)
				time.AfterFunc(time.Second, func() { c.down.Store(false) })
			},
			there: true,
		},
		"a crash before": {
			before: func(_ *keeping, c *interrupted, _ *corev1.PersistentVolume) { c.down.Store(true) },
			then:   restarted,
			there:  true,
		},
		"a crash before, and the volume gone": {
			before: func(_ *keeping, c *interrupted, _ *corev1.PersistentVolume) { c.down.Store(true) },
			then: func(k *keeping, v *corev1.PersistentVolume) {
				k.stop()
				k.delete(v)
				k.run(k.h.Client("keeper"))
			},
		},
		"a crash before, and the volume deleted": {
			finalizers: protected,
			before:     func(_ *keeping, c *interrupted, _ *corev1.PersistentVolume) { c.down.Store(true) },
			then: func(k *keeping, v *corev1.PersistentVolume) {
				k.stop()
				k.delete(v)
				k.run(k.h.Client("keeper"))
				settled()
				k.free(v)
			},
		},
		"a crash after": {
			after: func(_ *keeping, c *interrupted, _ *corev1.PersistentVolume, _ error) error {
				c.down.Store(true)
				return errDown
			},
			then:  restarted,
			there: true,
		},
		"a crash after, and the volume deleted": {
			after: func(_ *keeping, c *interrupted, _ *corev1.PersistentVolume, _ error) error {
				c.down.Store(true)
				return errDown
			},
			then: func(k *keeping, v *corev1.PersistentVolume) {
				k.stop()
				k.delete(v)
				k.run(k.h.Client("keeper"))
			},
		},
	} {
		folder := filepath.Join(t.TempDir(), "volumes")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeping(t, folder)
				v := k.volume(test.finalizers...)
				wrote := false
				c := &interrupted{Interface: k.h.Client("keeper")}
				c.before = func() {
					if wrote = len(k.folders()) == 1; !wrote {
						t.Errorf("before the write there is %q", k.folders())
					}
					if test.before != nil {
						test.before(k, c, v)
					}
				}
				if test.after != nil {
					c.after = func(err error) error { return test.after(k, c, v, err) }
				}
				k.run(c)
				settled()
				if test.then != nil {
					test.then(k, v)
					settled()
				}
				k.stop()
				got := k.now(v)
				if !wrote || (got != nil) != test.there || (len(k.folders()) == 1) != test.there || got != nil && !localpath.Made(got) {
					t.Errorf("wrote %t, volume %+v, folders %q; want them there: %t", wrote, got, k.folders(), test.there)
				}
			})
		})
	}
}

func restarted(k *keeping, _ *corev1.PersistentVolume) {
	k.stop()
	k.run(k.h.Client("keeper"))
}

// A volume that is deleted and does not say that it has a folder takes no data
// along: somebody else put it where the folder would be.
func TestDataOfNobodyStays(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, folder)
		v := k.volume(volumes.VolumeProtection)
		k.delete(v)
		if err := os.Mkdir(v.Spec.Local.Path, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(v.Spec.Local.Path, "file")
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		k.run(k.h.Client("keeper"))
		settled()
		k.free(v)
		settled()
		k.stop()
		if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
			t.Errorf("got %q, %v", b, err)
		}
	})
}
