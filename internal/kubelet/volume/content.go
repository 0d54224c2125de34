package volume

import (
	"context"
	"fmt"
	"io/fs"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/kubelet/env"
)

// content is what the files of a volume should be, and when to ask again.
func (m *Manager) content(ctx context.Context, pod *v1.Pod, v *v1.Volume) (map[string]File, time.Time, error) {
	b := builder{m: m, ctx: ctx, pod: pod, volume: v.Name, files: map[string]File{}}
	var err error
	switch {
	case v.ConfigMap != nil:
		b.mode = mode(v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
		err = b.configMap(v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		b.mode = mode(v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
		err = b.secret(v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.DownwardAPI != nil:
		b.mode = mode(v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		err = b.downward(v.DownwardAPI.Items)
	case v.Projected != nil:
		b.mode = mode(v.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			// All are asked for at once, also when one of them is not there yet.
			if e := b.projection(i, &v.Projected.Sources[i]); err == nil {
				err = e
			}
		}
	}
	return b.files, b.renew, err
}

type builder struct {
	m      *Manager
	ctx    context.Context
	pod    *v1.Pod
	volume string
	mode   fs.FileMode
	files  map[string]File
	renew  time.Time
}

func mode(m *int32, otherwise int32) fs.FileMode {
	if m != nil {
		otherwise = *m
	}
	return fs.FileMode(otherwise) & fs.ModePerm
}

func (b *builder) projection(n int, p *v1.VolumeProjection) error {
	switch {
	case p.ConfigMap != nil:
		return b.configMap(p.ConfigMap.Name, p.ConfigMap.Items, p.ConfigMap.Optional)
	case p.Secret != nil:
		return b.secret(p.Secret.Name, p.Secret.Items, p.Secret.Optional)
	case p.DownwardAPI != nil:
		return b.downward(p.DownwardAPI.Items)
	case p.ServiceAccountToken != nil:
		return b.token(p.ServiceAccountToken)
	case p.ClusterTrustBundle != nil:
		return b.trust(p.ClusterTrustBundle)
	case p.PodCertificate != nil:
		return b.certificate(n, p.PodCertificate)
	}
	return fmt.Errorf("a source of projected volume %q is of a type that is not supported", b.volume)
}

func (b *builder) configMap(name string, items []v1.KeyToPath, optional *bool) error {
	opt := optional != nil && *optional
	cm, err := b.m.opts.Objects.ConfigMap(b.ctx, b.pod.Namespace, name)
	if apierrors.IsNotFound(err) && opt {
		return nil
	} else if err != nil {
		return err
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		data[k] = v
	}
	return b.add(data, items, opt, "configmap")
}

func (b *builder) secret(name string, items []v1.KeyToPath, optional *bool) error {
	opt := optional != nil && *optional
	s, err := b.m.opts.Objects.Secret(b.ctx, b.pod.Namespace, name)
	if apierrors.IsNotFound(err) && opt {
		return nil
	} else if err != nil {
		return err
	}
	return b.add(s.Data, items, opt, "secret")
}

func (b *builder) add(data map[string][]byte, items []v1.KeyToPath, optional bool, what string) error {
	if len(items) == 0 {
		for k, v := range data {
			b.files[k] = File{v, b.mode}
		}
		return nil
	}
	for _, it := range items {
		v, ok := data[it.Key]
		if !ok {
			if optional {
				continue
			}
			return fmt.Errorf("%s references non-existent %s key: %s", what, what, it.Key)
		}
		f := File{v, b.mode}
		if it.Mode != nil {
			f.Mode = fs.FileMode(*it.Mode) & fs.ModePerm
		}
		b.files[it.Path] = f
	}
	return nil
}

func (b *builder) downward(items []v1.DownwardAPIVolumeFile) error {
	facts := b.m.opts.Facts(b.pod)
	for _, it := range items {
		var v string
		var err error
		switch {
		case it.FieldRef != nil:
			v, err = env.Field(b.pod, it.FieldRef.FieldPath, facts)
		case it.ResourceFieldRef != nil:
			v, err = env.Resource(b.pod, nil, it.ResourceFieldRef, facts.Allocatable)
		}
		if err != nil {
			return err
		}
		f := File{[]byte(v), b.mode}
		if it.Mode != nil {
			f.Mode = fs.FileMode(*it.Mode) & fs.ModePerm
		}
		b.files[it.Path] = f
	}
	return nil
}

func (b *builder) token(p *v1.ServiceAccountTokenProjection) error {
	seconds := int64(3600)
	if p.ExpirationSeconds != nil {
		seconds = *p.ExpirationSeconds
	}
	t, err := b.m.tokens.get(b.ctx, b.m.opts, b.pod, tokenKey{b.pod.UID, p.Audience, seconds})
	if err != nil {
		return fmt.Errorf("failed to fetch token: %w", err)
	}
	b.renewAt(t.renew)
	b.files[p.Path] = File{[]byte(t.value), tokenMode(b.pod, b.mode)}
	return nil
}

// tokenMode lets the pod's group read a token that others may not.
func tokenMode(pod *v1.Pod, m fs.FileMode) fs.FileMode {
	if fsGroup(pod) != nil {
		return 0o640
	}
	return m
}

// References lists the config maps and secrets that a pod's spec names: in
// volumes, variables and pull secrets.
func References(pod *v1.Pod) (configMaps, secrets []string) {
	cms, secs := map[string]bool{}, map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap != nil {
			cms[v.ConfigMap.Name] = true
		}
		if v.Secret != nil {
			secs[v.Secret.SecretName] = true
		}
		if v.Projected == nil {
			continue
		}
		for _, p := range v.Projected.Sources {
			if p.ConfigMap != nil {
				cms[p.ConfigMap.Name] = true
			}
			if p.Secret != nil {
				secs[p.Secret.Name] = true
			}
		}
	}
	each := func(c *v1.Container) {
		for _, f := range c.EnvFrom {
			if f.ConfigMapRef != nil {
				cms[f.ConfigMapRef.Name] = true
			}
			if f.SecretRef != nil {
				secs[f.SecretRef.Name] = true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				cms[r.Name] = true
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				secs[r.Name] = true
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		each(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		each(&pod.Spec.Containers[i])
	}
	for _, r := range pod.Spec.ImagePullSecrets {
		if r.Name != "" {
			secs[r.Name] = true
		}
	}
	return sorted(cms), sorted(secs)
}

func sorted(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
