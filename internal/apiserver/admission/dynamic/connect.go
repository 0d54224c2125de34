package dynamic

import (
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
	"github.com/setpoint-project/setpoint/internal/kinds"
)

// Connect asks webhooks and policies whether a stream may be opened, for the
// handlers of exec, attach, port-forward and proxy. kind finds the kind of a
// core resource.
func (h *Hooks) Connect(kind func(resource string) *kinds.Kind) func(*http.Request, *authz.Attributes) error {
	return func(req *http.Request, a *authz.Attributes) error {
		if h.mutating.all() == nil && h.validating.all() == nil && h.policies.all() == nil {
			return nil
		}
		k := kind(a.Resource)
		if k == nil {
			return nil
		}
		r := &admission.Request{
			Operation: admission.Connect, User: a.User, Resource: k.Resource, Kind: k, Subresource: a.Subresource,
			Namespace: a.Namespace, Name: a.Name, Version: corev1.SchemeGroupVersion,
			ConnectOptions: connectOptions(a.Resource+"/"+a.Subresource, req.URL.Query(), req.URL.Path),
		}
		ctx := req.Context()
		for _, ask := range [...]func() error{
			func() error { return h.mutate(ctx, r) }, func() error { return h.enforce(ctx, r) }, func() error { return h.validate(ctx, r) },
		} {
			if err := ask(); err != nil {
				return err
			}
		}
		return nil
	}
}

// connectOptions are what a request for a stream asks for in its query.
func connectOptions(what string, q url.Values, path string) runtime.Object {
	kind := func(name string) metav1.TypeMeta { return metav1.TypeMeta{Kind: name, APIVersion: "v1"} }
	flag := func(name string, standard bool) bool {
		if !q.Has(name) {
			return standard
		}
		b, err := strconv.ParseBool(q.Get(name))
		return err == nil && b || err != nil && q.Get(name) != ""
	}
	switch what {
	case "pods/exec":
		return &corev1.PodExecOptions{
			TypeMeta: kind("PodExecOptions"), Stdin: flag("stdin", false), Stdout: flag("stdout", true), Stderr: flag("stderr", true),
			TTY: flag("tty", false), Container: q.Get("container"), Command: q["command"],
		}
	case "pods/attach":
		return &corev1.PodAttachOptions{
			TypeMeta: kind("PodAttachOptions"), Stdin: flag("stdin", false), Stdout: flag("stdout", true), Stderr: flag("stderr", true),
			TTY: flag("tty", false), Container: q.Get("container"),
		}
	case "pods/portforward":
		out := &corev1.PodPortForwardOptions{TypeMeta: kind("PodPortForwardOptions")}
		for _, text := range q["ports"] {
			if port, err := strconv.ParseInt(text, 10, 32); err == nil {
				out.Ports = append(out.Ports, int32(port))
			}
		}
		return out
	case "services/proxy":
		return &corev1.ServiceProxyOptions{TypeMeta: kind("ServiceProxyOptions"), Path: path}
	case "nodes/proxy":
		return &corev1.NodeProxyOptions{TypeMeta: kind("NodeProxyOptions"), Path: path}
	}
	return &corev1.PodProxyOptions{TypeMeta: kind("PodProxyOptions"), Path: path}
}
