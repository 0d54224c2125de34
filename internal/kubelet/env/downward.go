package env

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field is the value of a field of the pod, by the paths of the downward API:
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/.
func Field(pod *v1.Pod, path string, facts Pod) (string, error) {
	if name, key, ok := strings.Cut(path, "["); ok && strings.HasSuffix(key, "]") {
		key = strings.Trim(key[:len(key)-1], `'"`)
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return pairs(pod.Labels), nil
	case "metadata.annotations":
		return pairs(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return first(facts.IPs), nil
	case "status.podIPs":
		return strings.Join(facts.IPs, ","), nil
	case "status.hostIP":
		return first(facts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(facts.HostIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// pairs is the form of a file of labels: key="value", sorted.
func pairs(m map[string]string) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(lines, "\n")
}

// Resource is the value of a container's request or limit, in units of the
// divisor, rounded up. A limit that is not set is what the node can give.
func Resource(pod *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	if ref.ContainerName != "" {
		c = find(pod, ref.ContainerName)
		if c == nil {
			return "", fmt.Errorf("container %q not found", ref.ContainerName)
		}
	}
	if c == nil {
		return "", fmt.Errorf("resource %q names no container", ref.Resource)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	var list v1.ResourceList
	switch kind {
	case "limits":
		list = c.Resources.Limits
	case "requests":
		list = c.Resources.Requests
	default:
		ok = false
	}
	if !ok {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	q, set := list[v1.ResourceName(name)]
	if !set && kind == "limits" {
		q = allocatable[v1.ResourceName(name)]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(v1.ResourceCPU) {
		return strconv.FormatInt(ceil(q.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceil(q.Value(), divisor.Value()), 10), nil
}

func ceil(a, b int64) int64 {
	if b == 0 {
		return a
	}
	return (a + b - 1) / b
}

func find(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	return nil
}
