package pod

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/probe"
)

// runHook runs a lifecycle hook to its end. See
// https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/.
func (d *Deps) runHook(ctx context.Context, pod *v1.Pod, c *v1.Container, id, host string, h *v1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		resp, err := d.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: h.Exec.Command})
		if err != nil {
			return err
		}
		if resp.ExitCode != 0 {
			return fmt.Errorf("command %q exited with %d: %s, message: %q", h.Exec.Command, resp.ExitCode, resp.Stderr, resp.Stdout)
		}
		return nil
	case h.HTTPGet != nil:
		return hookHTTP(ctx, c, host, h.HTTPGet)
	case h.TCPSocket != nil:
		port, err := probe.Port(h.TCPSocket.Port, c.Ports)
		if err != nil {
			return err
		}
		if h.TCPSocket.Host != "" {
			host = h.TCPSocket.Host
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
	return fmt.Errorf("hook of container %q names no action", c.Name)
}

func hookHTTP(ctx context.Context, c *v1.Container, host string, a *v1.HTTPGetAction) error {
	req, err := probe.Request(ctx, a, host, c.Ports)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-lifecycle/1.37")
	client := &http.Client{Transport: probe.Transport()}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 10<<10)
	if resp.StatusCode >= 400 {
		return fmt.Errorf("HTTP lifecycle hook (%s) of container %q failed: status %d", req.URL, c.Name, resp.StatusCode)
	}
	return nil
}
