// Package config reads AdmissionConfiguration files, so that what was written
// for upstream's API server works here.
//
//	plugins, err := config.ReadFile("/etc/kubernetes/admission.yaml")
//
// Of the plugins only PodSecurity has something to be told; a configuration of
// another one is an error, never left out silently.
//
// https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	podsecurity "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
)

// Plugins is what a file says.
type Plugins struct {
	PodSecurity admission.PodSecurityConfig
}

// file is an AdmissionConfiguration.
// https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration
type file struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Plugins    []plugin `json:"plugins"`
}

type plugin struct {
	Name string `json:"name"`
	// Configuration stands here or, where it does not, in a file of its own.
	Configuration json.RawMessage `json:"configuration"`
	Path          string          `json:"path"`
}

// versions of AdmissionConfiguration that upstream reads.
var versions = []string{"apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"}

// ReadFile reads the file of that name. Paths in it are relative to its folder.
func ReadFile(name string) (Plugins, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Plugins{}, err
	}
	out, err := read(data, func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(name), path)
		}
		return os.ReadFile(path)
	})
	if err != nil {
		return Plugins{}, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// read is ReadFile of what stands in a file; open reads those that it names.
func read(data []byte, open func(path string) ([]byte, error)) (out Plugins, err error) {
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return out, fmt.Errorf("admission configuration: %w", err)
	}
	if f.Kind != "AdmissionConfiguration" || !slices.Contains(versions, f.APIVersion) {
		return out, fmt.Errorf("admission configuration: it is a %q of %q; an AdmissionConfiguration of %s is due", f.Kind, f.APIVersion, versions[0])
	}
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return out, fmt.Errorf("admission configuration: %w", err)
	}
	seen := map[string]bool{}
	for i := range f.Plugins {
		p := &f.Plugins[i]
		path := fmt.Sprintf("admission configuration: plugins[%d]", i)
		switch {
		case p.Name == "":
			return out, fmt.Errorf("%s.name: must not be empty", path)
		case p.Name != podSecurity:
			return out, fmt.Errorf("%s.name: %q cannot be configured here; only %s can", path, p.Name, podSecurity)
		case seen[p.Name]:
			return out, fmt.Errorf("%s.name: %q comes twice", path, p.Name)
		}
		seen[p.Name] = true
		text := []byte(p.Configuration)
		if len(text) == 0 || string(text) == "null" {
			if p.Path == "" {
				return out, fmt.Errorf("%s: one of configuration and path must be set", path)
			}
			if text, err = open(p.Path); err != nil {
				return out, fmt.Errorf("%s.path: %w", path, err)
			}
			path += ".path " + p.Path
		} else {
			path += ".configuration"
		}
		if out.PodSecurity, err = readPodSecurity(text); err != nil {
			return out, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

const podSecurity = "PodSecurity"

func readPodSecurity(text []byte) (out admission.PodSecurityConfig, err error) {
	if len(text) == 0 {
		return out, errors.New("it is empty")
	}
	c, err := load.LoadFromData(text)
	if err != nil {
		return out, err
	}
	if errs := validation.ValidatePodSecurityConfiguration(c); len(errs) > 0 {
		return out, errs.ToAggregate()
	}
	out.Users, out.Namespaces, out.RuntimeClasses = c.Exemptions.Usernames, c.Exemptions.Namespaces, c.Exemptions.RuntimeClasses
	out.Defaults, err = podsecurity.ToPolicy(c.Defaults)
	return out, err
}
