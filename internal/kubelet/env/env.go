// Package env makes a container's environment: variables of the services, of
// config maps and secrets, of the pod itself (downward API), and $(VAR)
// references between them.
//
// Make is pure but for Sources, by which it asks for config maps and secrets.
// Failure: an error says which variable wants what that is not there; the
// container then waits with the reason CreateContainerConfigError.
package env

import (
	"context"
	"fmt"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Sources are the objects that variables come from.
type Sources struct {
	ConfigMap func(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret    func(ctx context.Context, namespace, name string) (*v1.Secret, error)
	// Services of the pod's namespace and of "default", for service links.
	Services func(namespace string) []*v1.Service
	// Files reads a variable of a file in a volume (fileKeyRef).
	File func(volume, path, key string) (string, bool, error)
}

// Pod is what is known of the pod beside its object.
type Pod struct {
	IPs         []string
	HostIPs     []string
	Allocatable v1.ResourceList // of the node: the limit of what has none
}

// Var is one variable.
type Var struct{ Name, Value string }

// Make is the environment of c. skipped names keys of config maps and secrets
// that cannot be variable names.
func Make(ctx context.Context, src Sources, pod *v1.Pod, c *v1.Container, facts Pod) (vars []Var, skipped []string, err error) {
	m := maker{ctx: ctx, src: src, pod: pod, c: c, facts: facts, value: map[string]string{}}
	m.services = services(src, pod)
	for _, from := range c.EnvFrom {
		if err := m.from(from); err != nil {
			return nil, nil, err
		}
	}
	for _, e := range c.Env {
		if err := m.one(e); err != nil {
			return nil, nil, err
		}
	}
	for k, v := range m.services {
		if _, set := m.value[k]; !set {
			m.value[k] = v
		}
	}
	for k, v := range m.value {
		vars = append(vars, Var{k, v})
	}
	// A fixed order, so that equal pods are equal.
	sort.Slice(vars, func(i, j int) bool { return vars[i].Name < vars[j].Name })
	return vars, m.skipped, nil
}

type maker struct {
	ctx      context.Context
	src      Sources
	pod      *v1.Pod
	c        *v1.Container
	facts    Pod
	services map[string]string
	value    map[string]string
	skipped  []string
}

func (m *maker) from(from v1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		ref := from.ConfigMapRef
		cm, err := m.src.ConfigMap(m.ctx, m.pod.Namespace, ref.Name)
		if gone(err, ref.Optional) {
			return nil
		} else if err != nil {
			return fmt.Errorf("configmap %q not found: %w", ref.Name, err)
		}
		for k, v := range cm.Data {
			m.set(from.Prefix+k, v)
		}
	case from.SecretRef != nil:
		ref := from.SecretRef
		s, err := m.src.Secret(m.ctx, m.pod.Namespace, ref.Name)
		if gone(err, ref.Optional) {
			return nil
		} else if err != nil {
			return fmt.Errorf("secret %q not found: %w", ref.Name, err)
		}
		for k, v := range s.Data {
			m.set(from.Prefix+k, string(v))
		}
	}
	return nil
}

func (m *maker) set(k, v string) {
	if len(validation.IsRelaxedEnvVarName(k)) > 0 {
		m.skipped = append(m.skipped, k)
		return
	}
	m.value[k] = v
}

func gone(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && optional != nil && *optional
}

func (m *maker) one(e v1.EnvVar) error {
	if e.ValueFrom == nil {
		m.value[e.Name] = Expand(e.Value, m.value, m.services)
		return nil
	}
	from := e.ValueFrom
	var v string
	var err error
	switch {
	case from.FieldRef != nil:
		v, err = Field(m.pod, from.FieldRef.FieldPath, m.facts)
	case from.ResourceFieldRef != nil:
		v, err = Resource(m.pod, m.c, from.ResourceFieldRef, m.facts.Allocatable)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := m.src.ConfigMap(m.ctx, m.pod.Namespace, ref.Name)
		if gone(err, ref.Optional) {
			return nil
		} else if err != nil {
			return err
		}
		val, ok := cm.Data[ref.Key]
		if !ok {
			if ref.Optional != nil && *ref.Optional {
				return nil
			}
			return fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, m.pod.Namespace, ref.Name)
		}
		v = val
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := m.src.Secret(m.ctx, m.pod.Namespace, ref.Name)
		if gone(err, ref.Optional) {
			return nil
		} else if err != nil {
			return err
		}
		val, ok := s.Data[ref.Key]
		if !ok {
			if ref.Optional != nil && *ref.Optional {
				return nil
			}
			return fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, m.pod.Namespace, ref.Name)
		}
		v = string(val)
	case from.FileKeyRef != nil:
		ref := from.FileKeyRef
		val, ok, err := m.src.File(ref.VolumeName, ref.Path, ref.Key)
		if err != nil {
			return err
		}
		if !ok {
			if ref.Optional != nil && *ref.Optional {
				return nil
			}
			return fmt.Errorf("environment variable key %q not found in file %q of volume %q", ref.Key, ref.Path, ref.VolumeName)
		}
		v = val
	}
	if err != nil {
		return err
	}
	m.value[e.Name] = v
	return nil
}

// Command is a container's command and arguments with their $(VAR) references
// expanded.
func Command(c *v1.Container, vars []Var) (command, args []string) {
	values := make(map[string]string, len(vars))
	for _, v := range vars {
		values[v.Name] = v.Value
	}
	expand := func(in []string) []string {
		out := slices.Clone(in)
		for i := range out {
			out[i] = Expand(out[i], values)
		}
		return out
	}
	return expand(c.Command), expand(c.Args)
}
