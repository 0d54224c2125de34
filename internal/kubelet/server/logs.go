package server

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/cri"
	"github.com/setpoint-project/setpoint/internal/kubelet/logs"
)

// logs writes a container's log. See the log options of
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	p, err := s.pod(r)
	if err != nil {
		fail(w, err)
		return
	}
	q := r.URL.Query()
	o, err := logOptions(q, time.Now())
	if err != nil {
		fail(w, &errStatus{http.StatusUnprocessableEntity, err.Error()})
		return
	}
	previous := q.Get("previous") == "true" || q.Get("previous") == "1"
	c, err := s.logged(r, p, r.PathValue("container"), previous)
	if err != nil {
		fail(w, err)
		return
	}
	o.Alive = func() bool {
		resp, err := s.opts.Runtime.ContainerStatus(r.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		return err == nil && resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	path := filepath.Join(s.opts.LogsDir, p.Namespace+"_"+p.Name+"_"+string(p.UID), r.PathValue("container"), c.Annotations[cri.AnnotationRestartCount]+".log")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var stdout, stderr io.Writer = &flusher{w: w, each: o.Follow}, nil
	stderr = stdout
	switch q.Get("stream") {
	case v1.LogStreamStdout:
		stderr = io.Discard
	case v1.LogStreamStderr:
		stderr, stdout = stdout, io.Discard
	}
	if o.Follow { // answer at once, also when there is nothing to tell yet
		w.WriteHeader(http.StatusOK)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	if err := logs.Read(r.Context(), path, o, stdout, stderr); err != nil {
		fail(w, fmt.Errorf("failed to read log: %w", err))
	}
}

// flusher sends each line of a followed log on at once.
type flusher struct {
	w    http.ResponseWriter
	each bool
}

func (f *flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if fl, ok := f.w.(http.Flusher); ok && f.each && err == nil {
		fl.Flush()
	}
	return n, err
}

func logOptions(q url.Values, now time.Time) (logs.Options, error) {
	o := logs.Options{Follow: truth(q.Get("follow")), Timestamps: truth(q.Get("timestamps"))}
	number := func(name string, least int64) (*int64, error) {
		v := q.Get(name)
		if v == "" || v == "all" && name == "tailLines" {
			return nil, nil
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least {
			return nil, fmt.Errorf("%s: invalid value %q: must be a number of at least %d", name, v, least)
		}
		return &n, nil
	}
	var err error
	if o.Tail, err = number("tailLines", 0); err != nil {
		return o, err
	}
	if o.Limit, err = number("limitBytes", 1); err != nil {
		return o, err
	}
	seconds, err := number("sinceSeconds", 1)
	if err != nil {
		return o, err
	}
	if seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if v := q.Get("sinceTime"); v != "" {
		if seconds != nil {
			return o, fmt.Errorf("sinceSeconds and sinceTime must not both be given")
		}
		if o.Since, err = time.Parse(time.RFC3339Nano, v); err != nil {
			return o, fmt.Errorf("sinceTime: invalid value %q: must be a time like 2026-01-02T15:04:05Z", v)
		}
	}
	return o, nil
}

func truth(v string) bool { return v == "true" || v == "1" }

// logged is the container whose log is asked for.
func (s *Server) logged(r *http.Request, p *v1.Pod, name string, previous bool) (*runtimeapi.Container, error) {
	if !names(p, name) {
		return nil, &errStatus{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", name, p.Name)}
	}
	cs, err := s.containers(r.Context(), p, name)
	if err != nil {
		return nil, err
	}
	for len(cs) > 0 && cs[0].State == runtimeapi.ContainerState_CONTAINER_CREATED {
		cs = cs[1:]
	}
	waiting := ""
	for _, list := range [][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name && list[i].State.Waiting != nil {
				waiting = list[i].State.Waiting.Reason
				if m := list[i].State.Waiting.Message; m != "" && (waiting == "ErrImagePull" || waiting == "ImagePullBackOff") {
					waiting = "trying and failing to pull image"
				}
			}
		}
	}
	if previous {
		if len(cs) > 0 && waiting == "" {
			cs = cs[1:]
		}
		if len(cs) == 0 {
			return nil, &errStatus{http.StatusBadRequest, fmt.Sprintf("previous terminated container %q in pod %q not found", name, p.Name)}
		}
		return cs[0], nil
	}
	switch {
	case len(cs) > 0:
		return cs[0], nil
	case waiting == "trying and failing to pull image":
		return nil, &errStatus{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, p.Name, waiting)}
	case waiting != "":
		return nil, &errStatus{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, p.Name, waiting)}
	}
	return nil, &errStatus{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is not available", name, p.Name)}
}

func names(p *v1.Pod, name string) bool {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return true
		}
	}
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}
