package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// RuntimeSocket is where the container runtime of a data folder listens. While
// the folder's process runs, the runtime may be about to start: it is waited
// for, as tell is told.
func RuntimeSocket(ctx context.Context, dataDir string, tell func(string)) (string, error) {
	state, err := LoadState(dataDir)
	if err != nil {
		return "", err
	}
	if len(state.PodCIDRs) == 0 {
		return "", fmt.Errorf("this machine is no node of the cluster in %s: it has no images", dataDir)
	}
	supervisor, err := newSupervisor(&Options{DataDir: dataDir}, state)
	if err != nil {
		return "", err
	}
	absent := errors.New("the container runtime does not listen yet")
	err = retryFor(ctx, runtimePatience, tell, func(err error) bool { return err == absent }, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", supervisor.Socket())
		if err == nil {
			conn.Close()
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		if _, running := Running(dataDir); !running {
			return fmt.Errorf("the container runtime of %s does not run: `setpoint up` starts it", dataDir)
		}
		return absent
	})
	return supervisor.Socket(), err
}
