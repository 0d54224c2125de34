package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
)

// errStatus is an error with its code.
type errStatus struct {
	code int
	text string
}

func (e *errStatus) Error() string { return e.text }

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if e, ok := err.(*errStatus); ok {
		code = e.code
	}
	http.Error(w, cri.Message(err), code)
}

// pod is the pod that a request is about.
func (s *Server) pod(r *http.Request) (*v1.Pod, error) {
	ns, name := r.PathValue("ns"), r.PathValue("pod")
	o := s.opts.Pods.Get(ns, name)
	p, ok := o.(*v1.Pod)
	if !ok || r.PathValue("uid") != "" && string(p.UID) != r.PathValue("uid") {
		return nil, &errStatus{http.StatusNotFound, fmt.Sprintf("pod %q not found", name)}
	}
	return p, nil
}

// containers are the pod's of a name, newest first.
func (s *Server) containers(ctx context.Context, p *v1.Pod, name string) ([]*runtimeapi.Container, error) {
	resp, err := s.opts.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{cri.LabelPodUID: string(p.UID), cri.LabelContainerName: name}}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(resp.Containers, func(a, b *runtimeapi.Container) int { return int(b.CreatedAt - a.CreatedAt) })
	return resp.Containers, nil
}

// running is the id of the running container that a request is about.
func (s *Server) running(r *http.Request) (string, error) {
	p, err := s.pod(r)
	if err != nil {
		return "", err
	}
	name := r.PathValue("container")
	cs, err := s.containers(r.Context(), p, name)
	if err != nil {
		return "", err
	}
	for _, c := range cs {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			return c.Id, nil
		}
	}
	return "", &errStatus{http.StatusNotFound, fmt.Sprintf("container not found (%q)", name)}
}

// streams are which of a container's streams a request wants: by the
// kubelet's old names or the API server's.
type streams struct{ stdin, stdout, stderr, tty bool }

func wanted(q url.Values) (streams, error) {
	on := func(names ...string) bool {
		for _, n := range names {
			if v := q.Get(n); v == "1" || v == "true" {
				return true
			}
		}
		return false
	}
	st := streams{on("input", "stdin"), on("output", "stdout"), on("error", "stderr"), on("tty")}
	if st.tty {
		st.stderr = false // a terminal has one stream
	}
	if !st.stdin && !st.stdout && !st.stderr {
		return st, &errStatus{http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr"}
	}
	return st, nil
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	id, err := s.running(r)
	if err != nil {
		fail(w, err)
		return
	}
	st, err := wanted(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	resp, err := s.opts.Runtime.Exec(r.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: r.URL.Query()["command"],
		Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr, Tty: st.tty})
	if err != nil {
		fail(w, err)
		return
	}
	s.pass(w, r, resp.Url)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	id, err := s.running(r)
	if err != nil {
		fail(w, err)
		return
	}
	st, err := wanted(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	resp, err := s.opts.Runtime.Attach(r.Context(), &runtimeapi.AttachRequest{ContainerId: id,
		Stdin: st.stdin, Stdout: st.stdout, Stderr: st.stderr, Tty: st.tty})
	if err != nil {
		fail(w, err)
		return
	}
	s.pass(w, r, resp.Url)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	p, err := s.pod(r)
	if err != nil {
		fail(w, err)
		return
	}
	var ports []int32
	for _, v := range append(r.URL.Query()["port"], r.URL.Query()["ports"]...) {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil || n == 0 {
			fail(w, &errStatus{http.StatusBadRequest, fmt.Sprintf("invalid port %q", v)})
			return
		}
		ports = append(ports, int32(n))
	}
	resp, err := s.opts.Runtime.ListPodSandbox(r.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{cri.LabelPodUID: string(p.UID)}}})
	if err != nil {
		fail(w, err)
		return
	}
	if len(resp.Items) == 0 {
		fail(w, &errStatus{http.StatusNotFound, fmt.Sprintf("pod %q is not running", p.Name)})
		return
	}
	stream, err := s.opts.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: resp.Items[0].Id, Port: ports})
	if err != nil {
		fail(w, err)
		return
	}
	s.pass(w, r, stream.Url)
}

// pass passes a connection on to the runtime.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, to string) {
	target, err := url.Parse(to)
	if err != nil || target.Host == "" {
		fail(w, fmt.Errorf("the runtime answered with the address %q", to))
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.Path, p.Out.URL.RawPath = target.Scheme, target.Host, target.Path, target.RawPath
			p.Out.URL.RawQuery = target.RawQuery
			p.Out.Host = target.Host
		},
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}

// run runs a command to its end and answers with what it wrote.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	id, err := s.running(r)
	if err != nil {
		fail(w, err)
		return
	}
	cmd := r.URL.Query()["cmd"]
	if len(cmd) == 0 {
		cmd = r.URL.Query()["command"]
	}
	if len(cmd) == 0 {
		fail(w, &errStatus{http.StatusBadRequest, "cmd is missing"})
		return
	}
	resp, err := s.opts.Runtime.ExecSync(r.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd})
	if err != nil {
		fail(w, err)
		return
	}
	if resp.ExitCode != 0 {
		http.Error(w, fmt.Sprintf("command exited with %d: %s%s", resp.ExitCode, resp.Stdout, resp.Stderr), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(append(resp.Stdout, resp.Stderr...))
}
