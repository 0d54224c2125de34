package cluster

import (
	"context"
	"log/slog"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/localpath"
)

// ensureStorage makes the default storage class at the first start. Whoever
// deletes or changes it then is not overruled.
func (c *controlPlane) ensureStorage(ctx context.Context) error {
	// A control plane whose certificates come from outside stands in for a bare
	// kube-apiserver, which has no classes.
	if c.state.Storage && !c.opts.InMemory || c.opts.Given.Serving != nil {
		return nil
	}
	if _, err := c.self().Create(ctx, client.StorageClasses, localpath.Class()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	c.state.Storage = true
	return c.state.save()
}

// startVolumes keeps the folders of the volumes that lie on a node.
func startVolumes(p *parts, c client.Interface, node, dataDir string, gaps *gapList, log *slog.Logger) error {
	folder, err := filepath.Abs(filepath.Join(dataDir, "volumes"))
	if err != nil {
		return err
	}
	events := client.NewRecorder(client.RecorderOptions{Client: c, Component: "local-path", Host: node, Logger: log})
	p.run("events", events.Run)
	keeper := localpath.NewKeeper(localpath.KeeperOptions{Client: c, Node: node, Folder: folder, Disk: localpath.Host{}, Logger: log, Recorder: events})
	gaps.add(keeper)
	p.run("local-path", keeper.Run)
	return nil
}
