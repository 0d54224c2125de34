package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/kubelet/object"
	"github.com/setpoint-project/setpoint/internal/kubelet/volume"
	"github.com/setpoint-project/setpoint/internal/volumes"
)

// job is one volume of one pod, while it is being mounted.
type job struct {
	volume.DriverVolume
	id     id
	about  *storagev1.CSIDriver // nil: the driver has none
	caps   capabilities
	secret *v1.SecretReference // for publishing
}

// republishEvery is how often a driver is asked to publish again that wants to
// be.
const republishEvery = time.Minute

// Mount publishes a volume of a pod, or brings it up to date. renew is when it
// should be called again at the latest; zero: no need.
func (m *Manager) Mount(ctx context.Context, v volume.DriverVolume) (renew time.Time, err error) {
	j := &job{DriverVolume: v}
	if v.Volume != nil {
		j.id, j.secret = id{v.Volume.Spec.CSI.Driver, v.Volume.Spec.CSI.VolumeHandle}, v.Volume.Spec.CSI.NodePublishSecretRef
	} else {
		j.id = id{v.Inline.Driver, inlineHandle(v.Pod.UID, v.Name)}
		if r := v.Inline.NodePublishSecretRef; r != nil {
			j.secret = &v1.SecretReference{Namespace: v.Pod.Namespace, Name: r.Name}
		}
	}
	if j.about, err = m.described(ctx, j.id.driver); err != nil {
		if m.Mounted(v.Pod.UID, v.Name) {
			// With the API server away a pod may be started again with what it has.
			return time.Now().Round(0).Add(republishEvery), nil
		}
		return time.Time{}, err
	}
	if err := j.allowed(); err != nil {
		return time.Time{}, err
	}
	r, err := m.publication(v.Pod.UID, v.Name)
	if err != nil {
		return time.Time{}, err
	}
	if j.republished() {
		renew = time.Now().Round(0).Add(republishEvery)
	}
	m.follow(j)
	var soon time.Duration
	if r == nil || !r.Done || r.Boot != m.opts.Boot {
		soon, err = m.first(ctx, j, r)
	} else {
		soon, err = m.again(ctx, j, r)
	}
	if soon > 0 && soon < republishEvery {
		renew = time.Now().Round(0).Add(soon)
	} else if soon > 0 && renew.IsZero() {
		renew = time.Now().Round(0).Add(soon)
	}
	return renew, err
}

// inlineHandle is the handle of a volume that stands in a pod's spec.
func inlineHandle(uid types.UID, name string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(uid)+name)))
}

// allowed tells whether the driver takes volumes of this sort.
func (j *job) allowed() error {
	want, modes := storagev1.VolumeLifecyclePersistent, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	if j.Inline != nil {
		want = storagev1.VolumeLifecycleEphemeral
	}
	if j.about != nil {
		modes = j.about.Spec.VolumeLifecycleModes
	}
	if !slices.Contains(modes, want) {
		return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", want, j.id.driver, modes)
	}
	return nil
}

// staged tells whether the volume is staged before it is published.
func (j *job) staged() bool {
	return j.Volume != nil && j.caps[pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME]
}

func (j *job) republished() bool {
	return j.about != nil && j.about.Spec.RequiresRepublish != nil && *j.about.Spec.RequiresRepublish
}

// follow has the pod looked at when its persistent volume changes: it may have
// grown.
func (m *Manager) follow(j *job) {
	if j.Volume == nil {
		return
	}
	m.mu.Lock()
	have := m.holds[j.Pod.UID]
	if !slices.Contains(have, j.Volume.Name) {
		have = append(slices.Clone(have), j.Volume.Name)
		m.holds[j.Pod.UID] = have
	}
	m.mu.Unlock()
	refs := make([]object.Ref, len(have))
	for i, name := range have {
		refs[i] = object.Ref{Resource: v1.SchemeGroupVersion.WithResource("persistentvolumes"), Name: name}
	}
	m.objects.Hold(m.life, j.Pod.UID, refs)
}

// first mounts a volume; r is what was written down when it was tried before.
// again is how soon it is to be looked at once more; 0: no need.
func (m *Manager) first(ctx context.Context, j *job, r *record) (again time.Duration, err error) {
	if j.caps, err = m.capabilities(ctx, j.id.driver); err != nil {
		return 0, err
	}
	attach := j.Volume != nil && volumes.AttachRequired(j.about)
	m.use(j.id, attach, j.Pod.UID)
	var fromAttacher map[string]string
	if attach {
		if fromAttacher, err = m.attached(ctx, j.id); err != nil {
			return 0, err
		}
	}
	give, err := m.take(ctx, j.id)
	if err != nil {
		return 0, err
	}
	defer give()
	staging := ""
	if j.staged() {
		if staging, err = m.stage(ctx, j, attach, fromAttacher); err != nil {
			return 0, err
		}
	}
	if r == nil {
		if r, err = m.place(j, attach); err != nil {
			return 0, err
		}
	}
	r.Boot, r.Done, r.Size, r.Refused = m.opts.Boot, false, 0, 0
	if err := r.save(); err != nil {
		return 0, err
	}
	if err := m.publish(ctx, j, r, staging, fromAttacher); err != nil {
		return 0, err
	}
	if err := m.own(j, r); err != nil {
		return 0, err
	}
	g, err := m.growth(ctx, j, nil)
	if err == nil {
		err = m.grow(ctx, j, g, r, staging)
	}
	if err != nil {
		return 0, err
	}
	r.Done = true
	return g.again, r.save()
}

// again publishes a volume once more where its driver wants that, and has it
// grow.
func (m *Manager) again(ctx context.Context, j *job, r *record) (again time.Duration, err error) {
	g, err := m.growth(ctx, j, r)
	if err != nil || !g.due && !g.here && !j.republished() {
		return g.again, err
	}
	if j.caps, err = m.capabilities(ctx, j.id.driver); err != nil {
		return 0, err
	}
	give, err := m.take(ctx, j.id)
	if err != nil {
		return 0, err
	}
	defer give()
	staging := ""
	if j.staged() {
		staging = (&record{dir: m.stagingDir(j.id)}).staging()
	}
	if j.republished() {
		var fromAttacher map[string]string
		if r.Attach {
			if fromAttacher, err = m.attached(ctx, j.id); err != nil {
				return 0, err
			}
		}
		if err := m.publish(ctx, j, r, staging, fromAttacher); err != nil {
			return 0, err
		}
	}
	size, refused := r.Size, r.Refused
	err = m.grow(ctx, j, g, r, staging)
	if r.Size != size || r.Refused != refused {
		err = errors.Join(err, r.save())
	}
	return g.again, err
}

// place chooses where a volume is published: as upstream, the folder bears the
// name of the persistent volume, by which some drivers know it.
func (m *Manager) place(j *job, attach bool) (*record, error) {
	r := &record{Driver: j.id.driver, Handle: j.id.handle, Name: j.Name, Attach: attach, Block: j.Device}
	base := j.Name
	if j.Volume != nil {
		r.Volume, base = j.Volume.Name, j.Volume.Name
	}
	r.dir = filepath.Join(m.podDir(j.Pod.UID), base)
	other, err := load(r.dir)
	if err != nil {
		return nil, err
	}
	if other != nil { // the pod has the volume under two names
		r.dir += "~" + j.Name
	}
	return r, nil
}

// stage has a volume staged, once for all pods of this node, and returns where.
func (m *Manager) stage(ctx context.Context, j *job, attach bool, fromAttacher map[string]string) (string, error) {
	dir := m.stagingDir(j.id)
	r, err := load(dir)
	if err != nil {
		return "", err
	}
	if r == nil {
		r = &record{Driver: j.id.driver, Handle: j.id.handle, Volume: j.Volume.Name, Attach: attach, Block: j.Device, dir: dir}
	}
	if r.Done && r.Boot == m.opts.Boot {
		return r.staging(), nil
	}
	secrets, err := m.secrets(ctx, j.Volume.Spec.CSI.NodeStageSecretRef)
	if err != nil {
		return "", err
	}
	r.Boot, r.Done = m.opts.Boot, false
	m.setStaged(j.id, true)
	if err := r.save(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(r.staging(), 0o750); err != nil {
		return "", err
	}
	err = m.ask(ctx, j.id.driver, func(ctx context.Context, c pb.NodeClient) error {
		_, err := c.NodeStageVolume(ctx, &pb.NodeStageVolumeRequest{
			VolumeId: j.id.handle, PublishContext: fromAttacher, StagingTargetPath: m.seen(j.id.driver, r.staging()),
			VolumeCapability: j.capability(), Secrets: secrets, VolumeContext: j.Volume.Spec.CSI.VolumeAttributes})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("MountVolume.MountDevice failed for volume %q : %w", j.Volume.Name, err)
	}
	r.Done = true
	return r.staging(), r.save()
}

// publish has a volume published for a pod.
func (m *Manager) publish(ctx context.Context, j *job, r *record, staging string, fromAttacher map[string]string) error {
	about := j.told()
	secrets, err := m.secrets(ctx, j.secret)
	if err != nil {
		return err
	}
	if err := m.tokens(ctx, j, about, &secrets); err != nil {
		return err
	}
	req := &pb.NodePublishVolumeRequest{
		VolumeId: j.id.handle, PublishContext: fromAttacher, TargetPath: m.seen(j.id.driver, r.target()),
		VolumeCapability: j.capability(), Readonly: j.ReadOnly, Secrets: secrets, VolumeContext: about}
	if staging != "" {
		req.StagingTargetPath = m.seen(j.id.driver, staging)
	}
	return m.ask(ctx, j.id.driver, func(ctx context.Context, c pb.NodeClient) error {
		_, err := c.NodePublishVolume(ctx, req)
		return err
	})
}

// own gives a volume to the pod's group, where that is for the kubelet to do.
func (m *Manager) own(j *job, r *record) error {
	if j.Give == nil || j.caps[pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] || !j.takesGroup() {
		return nil
	}
	return j.Give(r.target())
}

// takesGroup tells whether a volume is to be the pod's group's, by what its
// driver says of its volumes.
//
// https://kubernetes-csi.github.io/docs/support-fsgroup.html
func (j *job) takesGroup() bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if j.about != nil && j.about.Spec.FSGroupPolicy != nil {
		policy = *j.about.Spec.FSGroupPolicy
	}
	switch {
	case j.ReadOnly || j.Device || policy == storagev1.NoneFSGroupPolicy:
		return false
	case policy == storagev1.FileFSGroupPolicy:
		return true
	case j.fsType() == "":
		return false
	}
	return j.Inline != nil || slices.Contains(j.Volume.Spec.AccessModes, v1.ReadWriteOnce)
}

// Path is where a volume of a pod is published; empty: it is not one of a
// driver's, or was never mounted.
func (m *Manager) Path(uid types.UID, name string) string {
	if r, err := m.publication(uid, name); err == nil && r != nil {
		return r.target()
	}
	return ""
}

// Mounted tells whether a volume of a pod is published, since the machine was
// started.
func (m *Manager) Mounted(uid types.UID, name string) bool {
	r, err := m.publication(uid, name)
	if err != nil || r == nil || !r.Done || r.Boot != m.opts.Boot {
		return false
	}
	_, err = os.Lstat(r.target())
	return !errors.Is(err, fs.ErrNotExist)
}
