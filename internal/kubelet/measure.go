package kubelet

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/internal/kubelet/stats"
)

// stats measures what runs on the node.
func (k *Kubelet) stats() *stats.Collector {
	o := stats.Options{
		Node: k.opts.NodeName, Owner: k.opts.Owner, Runtime: k.rt, Memory: uint64(k.node.Memory()), Root: k.opts.RootDir,
		Pod: func(uid types.UID) *v1.Pod {
			for _, p := range client.Indexed[*v1.Pod](k.pods, byUID, string(uid)) {
				return p
			}
			return nil
		},
		Volumes: k.csi.Stats,
		LogDir: func(p *v1.Pod, container string) string {
			return filepath.Join(k.opts.PodLogsDir, p.Namespace+"_"+p.Name+"_"+string(p.UID), container)
		},
	}
	if k.cgroups != nil { // a nil *Tree in it would not be nil
		o.Groups = k.cgroups
	}
	return stats.New(o)
}
