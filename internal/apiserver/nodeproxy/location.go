package nodeproxy

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/client"
)

var (
	pods           = client.Resource{Version: "v1", Resource: "pods"}
	nodes          = client.Resource{Version: "v1", Resource: "nodes"}
	services       = client.Resource{Version: "v1", Resource: "services"}
	endpointSlices = client.Resource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// kubeletPort is where kubelets listen that say nothing else.
const kubeletPort = 10250

// get reads an object of a built-in type.
func get[T client.Object](ctx context.Context, p *Proxy, res client.Resource, namespace, name string) (T, error) {
	var zero T
	obj, err := p.cfg.Get(ctx, res, namespace, name)
	if err != nil {
		return zero, err
	}
	typed, ok := obj.(T)
	if !ok {
		return zero, apierrors.NewInternalError(fmt.Errorf("%s %s/%s is a %T", res.Resource, namespace, name, obj))
	}
	return typed, nil
}

// podOf is the pod that a request is about, once it has a node.
func (p *Proxy) podOf(ctx context.Context, a *authz.Attributes) (*corev1.Pod, error) {
	pod, err := get[*corev1.Pod](ctx, p, pods, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", a.Name))
	}
	return pod, nil
}

// kubeletURL is where the kubelet of a node answers. Its host is the node's
// name, by which the kubelet's certificate is checked; dialNode finds the
// address.
func kubeletURL(node *corev1.Node, path string, query url.Values) *url.URL {
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = kubeletPort
	}
	return &url.URL{
		Scheme:   "https",
		Host:     net.JoinHostPort(node.Name, strconv.Itoa(port)),
		Path:     path,
		RawQuery: query.Encode(),
	}
}

// locate is kubeletURL for the node of a pod.
func (p *Proxy) locate(ctx context.Context, pod *corev1.Pod, path string, query url.Values) (*url.URL, error) {
	node, err := get[*corev1.Node](ctx, p, nodes, "", pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	return kubeletURL(node, path, query), nil
}

// addressTypes in order of preference: an address needs no name service.
var addressTypes = []corev1.NodeAddressType{
	corev1.NodeInternalIP, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalIP, corev1.NodeExternalDNS,
}

// dialNode connects to a node by its name.
func (p *Proxy) dialNode(ctx context.Context, network, addr string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	node, err := get[*corev1.Node](ctx, p, nodes, "", name)
	if err != nil {
		return nil, err
	}
	if p.local(node) != nil {
		// Its addresses may be somebody else's out there.
		return nil, fmt.Errorf("node %s is simulated: there is nothing to connect to", name)
	}
	for _, t := range addressTypes {
		for _, a := range node.Status.Addresses {
			if a.Type == t && a.Address != "" {
				return p.cfg.Dial(ctx, network, net.JoinHostPort(a.Address, port))
			}
		}
	}
	return nil, fmt.Errorf("node %s has no address", name)
}

// containerOf checks the container that a request names, or finds the only one.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var plain, initial, ephemeral []string
	for _, c := range pod.Spec.Containers {
		plain = append(plain, c.Name)
	}
	for _, c := range pod.Spec.InitContainers {
		initial = append(initial, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, c.Name)
	}
	if name != "" {
		for _, list := range [][]string{plain, initial, ephemeral} {
			for _, n := range list {
				if n == name {
					return name, nil
				}
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(plain) {
	case 1:
		return plain[0], nil
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	message := fmt.Sprintf("a container name must be specified for pod %s, choose one of: [%s]", pod.Name, strings.Join(plain, " "))
	if len(initial) > 0 {
		message += fmt.Sprintf(" or one of the init containers: [%s]", strings.Join(initial, " "))
	}
	if len(ephemeral) > 0 {
		message += fmt.Sprintf(" or one of the ephemeral containers: [%s]", strings.Join(ephemeral, " "))
	}
	return "", apierrors.NewBadRequest(message)
}
