// Package plugin finds the node's plugins, CSI drivers and DRA drivers, by the
// sockets that they put into a folder, and hands each to who speaks with its
// kind.
//
//	folder --inotify--> scan: which sockets are there?
//	                      |
//	          new, or another one at the same path     gone
//	                      |                              |
//	     GetInfo -> Handler.Register -> Notify   Handler.Deregister
//
// Use: New with one Handler for each type of plugin, then Run.
//
// Every look reads the whole folder, so a change that was missed or came twice
// does no harm; a restart registers anew all that is there. A registration that
// fails is told to the plugin and tried again, later each time.
//
// Concurrency: each socket is dealt with in a goroutine of its own, so that a
// plugin that hangs holds up no other. Of one socket Register and Deregister
// are called one after the other; of different ones, also of the same plugin,
// at the same time.
//
// Failure: without inotify (its limits are small on some machines) the folder
// is read every second.
//
// https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
// and the comments of k8s.io/kubelet/pkg/apis/pluginregistration/v1 have the
// protocol.
package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/setpoint-project/setpoint/internal/kubelet/socket"
)

// The types of plugins, as they name themselves.
const (
	CSI = registerapi.CSIPlugin
	DRA = registerapi.DRAPlugin
)

// Plugin is what a plugin says about itself.
type Plugin struct {
	Type string // CSI, DRA or one that has no Handler here: a device plugin's, say
	Name string // of the driver
	// Endpoint is the path of the unix socket on which it serves what its type
	// asks for. It may be the one by which it was registered.
	Endpoint string
	// Versions are those of its service that it supports: for CSI "1.0.0" and
	// the like, for DRA names of gRPC services ("v1.DRAPlugin").
	Versions []string
	// Socket is the path by which it registered. A plugin that is being replaced
	// may be there twice, with two sockets.
	Socket string
}

// Handler takes the plugins of one type.
type Handler interface {
	// Register takes a plugin, or says why not, which the plugin is told. It is
	// called again after an error, when the plugin restarts, and with the kubelet.
	Register(ctx context.Context, p Plugin) error
	// Deregister is told that a plugin that was given to Register, whatever that
	// said, is not there any more: nobody serves at its Endpoint.
	Deregister(p Plugin)
}

// Options of a Watcher.
type Options struct {
	Dir      string             // the folder of sockets; made where it is missing
	Handlers map[string]Handler // by type
	Logger   *slog.Logger       // nil: no log
	// Changed, when not nil, is told of a socket that could not be registered and
	// why, and with nil that it is registered or gone. It must be quick.
	Changed func(socket string, err error)
}

// patience bounds one call of a plugin.
const patience = 10 * time.Second

// register asks who serves at a socket and hands it to its handler. The plugin
// is empty when it has reached none.
func (w *Watcher) register(ctx context.Context, path string) (Plugin, error) {
	conn, err := socket.Dial(path)
	if err != nil {
		return Plugin{}, err
	}
	defer conn.Close()
	c := registerapi.NewRegistrationClient(conn)
	info, err := ask(ctx, c)
	if err != nil {
		return Plugin{}, err
	}
	p := Plugin{Type: info.Type, Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions, Socket: path}
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	h := w.opts.Handlers[p.Type]
	if h == nil {
		err := fmt.Errorf("plugin %q is of type %q, which this node does not take", p.Name, p.Type)
		return Plugin{}, tell(ctx, c, err)
	}
	if p.Name == "" {
		return Plugin{}, tell(ctx, c, fmt.Errorf("a plugin of type %s has no name", p.Type))
	}
	return p, tell(ctx, c, h.Register(ctx, p))
}

func ask(ctx context.Context, c registerapi.RegistrationClient) (*registerapi.PluginInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := c.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %w", err)
	}
	return info, nil
}

// tell tells the plugin whether it is registered, and returns why it is not.
func tell(ctx context.Context, c registerapi.RegistrationClient, why error) error {
	st := &registerapi.RegistrationStatus{PluginRegistered: why == nil}
	if why != nil {
		st.Error = "plugin registration failed with err: " + why.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := c.NotifyRegistrationStatus(ctx, st); err != nil && why == nil {
		return fmt.Errorf("tell the plugin that it is registered: %w", err)
	}
	return why
}
