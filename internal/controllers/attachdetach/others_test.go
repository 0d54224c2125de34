package attachdetach_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/controllers"
	"github.com/setpoint-project/setpoint/internal/volumes"
	"github.com/setpoint-project/setpoint/loop"
)

// finalizer is that of the attacher, without whose leave no attachment goes.
const finalizer = "example.com/attacher"

// machines are what is mounted where: what an attacher must not detach.
type machines struct {
	mu      sync.Mutex
	mounted map[string]string // guarded by mu; attachments' names to nodes
	wrong   []string          // guarded by mu: what was detached while it was mounted
}

func (m *machines) mount(attachment, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mounted[attachment] = node
}

func (m *machines) unmount(attachment string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounted, attachment)
}

// off is a machine that is switched off.
func (m *machines) off(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.mounted, func(_, on string) bool { return on == node })
}

func (m *machines) detach(attachment string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mounted[attachment] != "" {
		m.wrong = append(m.wrong, attachment)
	}
}

// attacher plays a driver's external-attacher: what it is asked for it does,
// after a while, the second time it tries.
type attacher struct {
	*loop.Loop
	client   client.Interface
	view     client.View
	machines *machines
}

func newAttacher(o controllers.Options, m *machines) controllers.Controller {
	a := &attacher{client: o.Client, view: o.Client.View(client.VolumeAttachments, client.ViewOptions{}), machines: m}
	a.Loop = controllers.NewLoop(o, "attacher", 0, a.reconcile)
	return a
}

func (a *attacher) Run(ctx context.Context) error {
	return controllers.Run(ctx, a.Loop, controllers.Input{View: a.view, Changed: func(_, new client.Object) {
		if new != nil {
			a.LookAfter(controllers.KeyOf(new), 500*time.Millisecond)
		}
	}})
}

func (a *attacher) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	va, err := client.Get[*storagev1.VolumeAttachment](ctx, a.client, client.VolumeAttachments, "", key.Name)
	if apierrors.IsNotFound(err) {
		return loop.Done(), nil
	}
	va = va.DeepCopy()
	has := slices.Contains(va.Finalizers, finalizer)
	switch {
	case va.DeletionTimestamp != nil && has:
		a.machines.detach(va.Name)
		va.Finalizers = slices.DeleteFunc(va.Finalizers, func(f string) bool { return f == finalizer })
		_, err = a.client.Update(ctx, client.VolumeAttachments, va)
	case va.DeletionTimestamp != nil, va.Status.Attached:
	case !has:
		va.Finalizers = append(va.Finalizers, finalizer)
		_, err = a.client.Update(ctx, client.VolumeAttachments, va)
	case va.Status.AttachError == nil:
		va.Status.AttachError = &storagev1.VolumeError{Message: "not yet"}
		_, err = a.client.Update(ctx, client.VolumeAttachments, va, "status")
	default:
		va.Status.AttachError, va.Status.Attached = nil, true
		_, err = a.client.Update(ctx, client.VolumeAttachments, va, "status")
	}
	return loop.Done(), err
}

// kubelet plays that of every node but those whose name begins with "dead": it
// says what it uses, mounts what is attached then, and unmounts late.
type kubelet struct {
	*loop.Loop
	client                   client.Interface
	nodes, pods, claims, pvs client.View
	machines                 *machines
}

func newKubelet(o controllers.Options, m *machines) controllers.Controller {
	k := &kubelet{client: o.Client, machines: m, nodes: o.Client.View(client.Nodes, client.ViewOptions{}), pods: o.Client.View(client.Pods, client.ViewOptions{}),
		claims: o.Client.View(client.PersistentVolumeClaims, client.ViewOptions{}), pvs: o.Client.View(client.PersistentVolumes, client.ViewOptions{})}
	client.IndexByNode(k.pods)
	k.Loop = controllers.NewLoop(o, "kubelet", 0, k.reconcile)
	return k
}

func (k *kubelet) Run(ctx context.Context) error {
	return controllers.Run(ctx, k.Loop,
		controllers.Input{View: k.nodes, Changed: controllers.Look(k.Loop)},
		controllers.Input{View: k.claims}, controllers.Input{View: k.pvs},
		controllers.Input{View: k.pods, Changed: func(old, new client.Object) {
			k.LookAfter(loop.Key{Name: controllers.Present(old, new).(*corev1.Pod).Spec.NodeName}, time.Second)
		}})
}

func (k *kubelet) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	node, err := client.Get[*corev1.Node](ctx, k.client, client.Nodes, "", key.Name)
	switch {
	case apierrors.IsNotFound(err):
		k.machines.off(key.Name)
		return loop.Done(), nil
	case strings.HasPrefix(key.Name, "dead"):
		return loop.Done(), nil
	case err != nil:
		return loop.Outcome{}, err
	}
	want := map[corev1.UniqueVolumeName]string{} // to the attachment's name
	for _, pod := range client.Indexed[*corev1.Pod](k.pods, client.ByNode, key.Name) {
		for i := range pod.Spec.Volumes {
			claim := client.In[*corev1.PersistentVolumeClaim](k.claims, pod.Namespace, volumes.ClaimOf(pod, &pod.Spec.Volumes[i]))
			if claim == nil || controllers.Ended(pod) {
				continue
			}
			if v := client.In[*corev1.PersistentVolume](k.pvs, "", claim.Spec.VolumeName); v != nil && v.Spec.CSI != nil && v.Spec.CSI.Driver == driver {
				want[volumes.UniqueName(driver, v.Spec.CSI.VolumeHandle)] = volumes.AttachmentName(driver, v.Spec.CSI.VolumeHandle, key.Name)
			}
		}
	}
	use := make([]corev1.UniqueVolumeName, 0, len(want))
	for name := range want {
		use = append(use, name)
	}
	slices.Sort(use)
	for _, name := range node.Status.VolumesInUse {
		if _, ok := want[name]; !ok {
			d, h, _ := volumes.OfCSI(name)
			k.machines.unmount(volumes.AttachmentName(d, h, key.Name)) // unmounted, and said below
		}
	}
	if !slices.Equal(use, node.Status.VolumesInUse) {
		node = node.DeepCopy()
		node.Status.VolumesInUse = use
		if node, err = client.Update(ctx, k.client, client.Nodes, node, "status"); err != nil {
			return loop.Outcome{}, err
		}
	}
	for name, attachment := range want {
		if !volumes.Attached(node, name) {
			continue
		}
		va, err := client.Get[*storagev1.VolumeAttachment](ctx, k.client, client.VolumeAttachments, "", attachment)
		if err == nil && va.Status.Attached && va.DeletionTimestamp == nil {
			k.machines.mount(attachment, key.Name)
		}
	}
	return loop.Done(), nil
}
