package localpath

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// KeeperOptions of a Keeper.
type KeeperOptions struct {
	Client client.Interface
	Folder string // that the volumes lie in
	Disk   Disk
	// Node is the one whose volumes are kept, and which is to announce Folder.
	Node string
	// Nodes, instead of Node, tells whether a node is one of many whose volumes
	// are kept; nobody announces for them.
	Nodes    func(name string) bool
	Logger   *slog.Logger
	Recorder client.Recorder // nil: nobody is told
	Observer func(key loop.Key, o loop.Outcome, err error)
}

// Keeper makes and removes the folders of the volumes of a node.
//
// Its keys are volumes by name, and its node as announce.
type Keeper struct {
	*loop.Loop
	opts           KeeperOptions
	volumes, nodes client.View // nodes is nil when nobody announces

	mu sync.Mutex
	// unsaid are the folders, by the name of their volume, that were made and
	// whose volume may not say so yet; guarded by mu.
	unsaid map[string]string
}

var announce = loop.Key{Namespace: "nodes", Name: "announcement"}

// NewKeeper makes a Keeper; Run runs it.
func NewKeeper(o KeeperOptions) *Keeper {
	if o.Recorder == nil {
		o.Recorder = client.NoEvents
	}
	k := &Keeper{opts: o, unsaid: map[string]string{}}
	selector := NodeLabel
	if o.Node != "" {
		selector += "=" + o.Node
		k.nodes = o.Client.View(client.Nodes, client.ViewOptions{FieldSelector: "metadata.name=" + o.Node})
	}
	k.volumes = o.Client.View(client.PersistentVolumes, client.ViewOptions{LabelSelector: selector})
	k.Loop = loop.New(loop.Options{Name: "localpathkeeper", Workers: 2, Logger: o.Logger, Reconcile: func(ctx context.Context, key loop.Key) (loop.Outcome, error) {
		outcome, err := k.reconcile(ctx, key)
		if o.Observer != nil {
			o.Observer(key, outcome, err)
		}
		return outcome, err
	}})
	return k
}

// Run keeps folders until ctx ends. They stay.
func (k *Keeper) Run(ctx context.Context) error {
	views := []client.View{k.volumes}
	defer k.volumes.Handle(func(old, new client.Object) {
		for _, obj := range []client.Object{old, new} {
			if v, ok := obj.(*corev1.PersistentVolume); ok && k.mine(v) {
				k.Look(loop.Key{Name: v.Name})
			}
		}
	})()
	if k.nodes != nil {
		views = append(views, k.nodes)
		defer k.nodes.Handle(func(_, _ client.Object) { k.Look(announce) })()
	}
	for _, v := range views {
		if err := v.WaitSynced(ctx); err != nil {
			k.Stop()
			return err
		}
	}
	if err := k.prune(); err != nil {
		k.Stop()
		return err
	}
	return k.Loop.Run(ctx)
}

// prune removes the empty folders that no volume names: they were made, and
// the volume was gone before it could say so. Nobody ever wrote to them.
func (k *Keeper) prune() error {
	paths, err := k.opts.Disk.List(k.opts.Folder)
	for _, path := range paths {
		name, _, ours := strings.Cut(filepath.Base(path), "_")
		if ours && k.volumes.Get("", name) == nil {
			k.opts.Disk.Prune(path)
		}
	}
	return err
}

func (k *Keeper) mine(v *corev1.PersistentVolume) bool {
	node := v.Labels[NodeLabel]
	if !Ours(v) || node == "" {
		return false
	}
	if k.opts.Node != "" {
		return node == k.opts.Node
	}
	return k.opts.Nodes(node)
}

func (k *Keeper) reconcile(ctx context.Context, key loop.Key) (loop.Outcome, error) {
	if key == announce {
		return k.announce(ctx)
	}
	v := client.In[*corev1.PersistentVolume](k.volumes, "", key.Name)
	if v == nil || !k.mine(v) {
		k.settle(key.Name, true)
		return loop.Done(), nil
	}
	path := place(v, k.opts.Folder)
	switch {
	case v.DeletionTimestamp == nil && Made(v):
		k.settle(v.Name, false)
		return loop.Done(), nil
	case v.DeletionTimestamp == nil && path == "":
		k.opts.Recorder.Event(v, corev1.EventTypeWarning, "ProvisioningFailed", "%s is no place for it: volumes of this node lie in %s", v.Spec.Local.Path, k.opts.Folder)
		return loop.WaitFor("PersistentVolume "+v.Name, "its path %s is not in %s", v.Spec.Local.Path, k.opts.Folder), nil
	case v.DeletionTimestamp == nil:
		return k.make(ctx, v, path)
	case Made(v) && InUse(v):
		return loop.WaitFor("PersistentVolume "+v.Name, "a claim still has it"), nil
	case Made(v):
		return k.remove(ctx, v, path)
	case path != "":
		// A keeper before this one may have made it and ended there.
		k.opts.Disk.Prune(path)
	}
	k.settle(v.Name, true)
	return loop.Done(), nil
}

// settle forgets a folder whose volume says that it is there, or is gone
// without ever having said so: that folder goes as well.
func (k *Keeper) settle(volume string, gone bool) {
	k.mu.Lock()
	path, ok := k.unsaid[volume]
	delete(k.unsaid, volume)
	k.mu.Unlock()
	if ok && gone {
		k.opts.Disk.Prune(path) // nobody ever wrote to it
	}
}

func (k *Keeper) make(ctx context.Context, v *corev1.PersistentVolume, path string) (loop.Outcome, error) {
	if err := k.opts.Disk.Make(path); err != nil {
		k.opts.Recorder.Event(v, corev1.EventTypeWarning, "ProvisioningFailed", "%v", err)
		return loop.Outcome{}, err
	}
	k.mu.Lock()
	k.unsaid[v.Name] = path
	k.mu.Unlock()
	err := k.patch(ctx, v, map[string]any{"finalizers": []string{Finalizer}})
	if gone(err) {
		k.settle(v.Name, true)
		return loop.Done(), nil
	}
	// The view shows it soon, and a change is a look.
	return loop.Done(), err
}

func (k *Keeper) remove(ctx context.Context, v *corev1.PersistentVolume, path string) (loop.Outcome, error) {
	if path != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		if err := k.opts.Disk.Remove(path); err != nil {
			k.opts.Recorder.Event(v, corev1.EventTypeWarning, "VolumeFailedDelete", "%v", err)
			return loop.Outcome{}, err
		}
	}
	err := k.patch(ctx, v, map[string]any{"$deleteFromPrimitiveList/finalizers": []string{Finalizer}})
	if gone(err) {
		err = nil
	}
	return loop.Done(), err
}

// patch changes the finalizers of a volume, if it is still this one, whoever
// else writes to it.
func (k *Keeper) patch(ctx context.Context, v *corev1.PersistentVolume, metadata map[string]any) error {
	metadata["uid"] = v.UID
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	if _, err = k.opts.Client.Patch(ctx, client.PersistentVolumes, "", v.Name, types.StrategicMergePatchType, data); err != nil {
		return fmt.Errorf("write finalizer of volume %s: %w", v.Name, err)
	}
	return nil
}

func gone(err error) bool { return apierrors.IsNotFound(err) }

// announce says on the node where its volumes lie.
func (k *Keeper) announce(ctx context.Context) (loop.Outcome, error) {
	node := client.In[*corev1.Node](k.nodes, "", k.opts.Node)
	switch {
	case node == nil:
		return loop.WaitFor("Node "+k.opts.Node, "it is to register"), nil
	case node.Annotations[FolderAnnotation] == k.opts.Folder:
		return loop.Done(), nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{FolderAnnotation: k.opts.Folder}}})
	if err != nil {
		return loop.Outcome{}, err
	}
	_, err = k.opts.Client.Patch(ctx, client.Nodes, "", k.opts.Node, types.MergePatchType, data)
	if gone(err) {
		err = nil
	}
	return loop.Done(), err
}
