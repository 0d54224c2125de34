package stats

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/setpoint-project/setpoint/internal/volumes"
)

// volumes adds what is known of the volumes of those pods that run.
func (m *measurement) volumes(known map[types.UID]map[string]*statsv1alpha1.FsStats) {
	for uid, all := range known {
		i, ok := m.at[string(uid)]
		pod := m.c.opts.Pod(uid)
		if !ok || pod == nil {
			continue
		}
		p := &m.out.Pods[i]
		for j := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[j]
			fs := all[v.Name]
			if fs == nil {
				continue
			}
			out := statsv1alpha1.VolumeStats{FsStats: *fs, Name: v.Name}
			if claim := volumes.ClaimOf(pod, v); claim != "" {
				out.PVCRef = &statsv1alpha1.PVCReference{Name: claim, Namespace: pod.Namespace}
			}
			p.VolumeStats = append(p.VolumeStats, out)
		}
		slices.SortFunc(p.VolumeStats, func(a, b statsv1alpha1.VolumeStats) int { return strings.Compare(a.Name, b.Name) })
	}
}
