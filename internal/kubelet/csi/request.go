package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
)

// The keys by which a driver is told of the pod.
//
// https://kubernetes-csi.github.io/docs/pod-info.html
// https://kubernetes-csi.github.io/docs/token-requests.html
const (
	podName        = "csi.storage.k8s.io/pod.name"
	podNamespace   = "csi.storage.k8s.io/pod.namespace"
	podUID         = "csi.storage.k8s.io/pod.uid"
	serviceAccount = "csi.storage.k8s.io/serviceAccount.name"
	ephemeral      = "csi.storage.k8s.io/ephemeral"
	accountTokens  = "csi.storage.k8s.io/serviceAccount.tokens"
)

func (j *job) fsType() string {
	switch {
	case j.Volume != nil:
		return j.Volume.Spec.CSI.FSType
	case j.Inline.FSType != nil:
		return *j.Inline.FSType
	}
	return ""
}

// capability is what a pod wants a volume to be.
func (j *job) capability() *pb.VolumeCapability {
	c := &pb.VolumeCapability{AccessMode: &pb.VolumeCapability_AccessMode{Mode: j.accessMode()}}
	if j.Device {
		c.AccessType = &pb.VolumeCapability_Block{Block: &pb.VolumeCapability_BlockVolume{}}
		return c
	}
	mount := &pb.VolumeCapability_MountVolume{FsType: j.fsType()}
	if j.Volume != nil {
		mount.MountFlags = j.Volume.Spec.MountOptions
	}
	if j.Group != nil && j.caps[pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		mount.VolumeMountGroup = strconv.FormatInt(*j.Group, 10)
	}
	c.AccessType = &pb.VolumeCapability_Mount{Mount: mount}
	return c
}

// accessMode is the first of a volume's, as upstream's kubelet tells it, in the
// words of drivers that tell one pod of a node from many, or do not.
func (j *job) accessMode() pb.VolumeCapability_AccessMode_Mode {
	mode := v1.ReadWriteOnce
	if j.Volume != nil && len(j.Volume.Spec.AccessModes) > 0 {
		mode = j.Volume.Spec.AccessModes[0]
	}
	single := j.caps[pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER]
	switch {
	case mode == v1.ReadOnlyMany:
		return pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == v1.ReadWriteMany:
		return pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == v1.ReadWriteOncePod && single:
		return pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case single && j.Volume != nil:
		return pb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// told is what a driver is told of a volume, and of its pod where it asks for
// that.
func (j *job) told() map[string]string {
	about := map[string]string{}
	if j.Volume != nil {
		maps.Copy(about, j.Volume.Spec.CSI.VolumeAttributes)
	} else {
		maps.Copy(about, j.Inline.VolumeAttributes)
	}
	if j.about != nil && j.about.Spec.PodInfoOnMount != nil && *j.about.Spec.PodInfoOnMount {
		about[podName], about[podNamespace], about[podUID] = j.Pod.Name, j.Pod.Namespace, string(j.Pod.UID)
		about[serviceAccount], about[ephemeral] = j.Pod.Spec.ServiceAccountName, strconv.FormatBool(j.Inline != nil)
	}
	return about
}

// accountToken is a token, as a driver reads it.
type accountToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expirationTimestamp"`
}

// tokens adds those of the pod's service account that a driver asks for, among
// what it is told or, where it says so, the secrets.
func (m *Manager) tokens(ctx context.Context, j *job, about map[string]string, secrets *map[string]string) error {
	if j.about == nil || len(j.about.Spec.TokenRequests) == 0 {
		return nil
	}
	all := map[string]accountToken{}
	for _, r := range j.about.Spec.TokenRequests {
		seconds := int64(time.Hour / time.Second)
		if r.ExpirationSeconds != nil {
			seconds = *r.ExpirationSeconds
		}
		token, expires, err := m.opts.Token(ctx, j.Pod, r.Audience, seconds)
		if err != nil {
			return fmt.Errorf("failed to fetch token: %w", err)
		}
		all[r.Audience] = accountToken{token, expires.UTC().Truncate(time.Second)}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if in := j.about.Spec.ServiceAccountTokenInSecrets; in == nil || !*in {
		about[accountTokens] = string(b)
		return nil
	}
	if *secrets == nil {
		*secrets = map[string]string{}
	}
	(*secrets)[accountTokens] = string(b)
	return nil
}

// secrets are what a secret holds that a volume names; nil: it names none.
func (m *Manager) secrets(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	s, err := m.opts.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("failed to get secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	out := make(map[string]string, len(s.Data))
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out, nil
}
