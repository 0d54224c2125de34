package kubelet

import (
	"path/filepath"
	"time"

	"github.com/setpoint-project/setpoint/internal/kubelet/plugin"
	"github.com/setpoint-project/setpoint/loop"
)

// pluginSockets is the folder below the kubelet's own that plugins put their
// sockets into; the name is upstream's, which drivers rely on.
const pluginSockets = "plugins_registry"

// plugins watches for the node's plugins.
func (k *Kubelet) plugins() *plugin.Watcher {
	dir := filepath.Join(k.opts.RootDir, pluginSockets)
	return plugin.New(plugin.Options{
		Dir: dir, Handlers: k.handlers(), Logger: k.opts.Logger,
		Changed: func(socket string, err error) {
			name, relErr := filepath.Rel(dir, socket) // plugins may use folders of their own
			if relErr != nil {
				name = socket
			}
			o := loop.Done()
			if err != nil {
				o = loop.WaitFor("plugin at "+name, "it registers")
			}
			k.observe(loop.Key{Name: name}, o, err, time.Duration(0))
		},
	})
}

// handlers are those who speak with the node's plugins, by type.
func (k *Kubelet) handlers() map[string]plugin.Handler {
	return map[string]plugin.Handler{plugin.CSI: k.csi, plugin.DRA: k.devices}
}
