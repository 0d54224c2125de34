package scheduler

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler/volumes"
)

// reasonSingle is that a claim for one pod alone is another's.
const reasonSingle = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"

// lookAtVolumes finds what the claims of p come to.
func (pl *placement) lookAtVolumes(p *podInfo) {
	p.needs = nil
	if len(p.claims) == 0 || pl.volumes == nil || p.profile.without&withoutVolumes != 0 {
		return
	}
	p.needs = pl.volumes.Of(p.pod, p.profile.without&withoutZones != 0)
	p.among = pl.cluster
}

// lookAtDevices finds what the ResourceClaims of p come to.
func (pl *placement) lookAtDevices(p *podInfo) {
	p.devices = nil
	if len(p.pod.Spec.ResourceClaims) == 0 || pl.devices == nil || p.profile.without&withoutDevices != 0 {
		return
	}
	p.devices = pl.devices.Of(context.Background(), p.pod)
}

// refusal keeps p from all nodes; "": nothing does.
func (p *podInfo) refusal() string {
	if p.needs != nil && p.needs.Refusal != "" {
		return p.needs.Refusal
	}
	if p.devices != nil {
		return p.devices.Refusal
	}
	return ""
}

// waitsOn is what a change of may let p fit, besides nodes and pods.
func (p *podInfo) waitsOn() (on []string) {
	if p.needs != nil {
		on = append(on, p.needs.On...)
	}
	if p.devices != nil {
		on = append(on, p.devices.On...)
	}
	return on
}

// beside says why p's volumes cannot be on a node beside those of its pods, or
// "". Unlike what Needs.Refuses says, pods that leave can mend it.
func beside(p *podInfo, n *nodeInfo) string {
	if len(p.disks) > 0 && p.profile.without&withoutRestrictions == 0 {
		for i := range p.disks {
			for j := range n.disks {
				if p.disks[i].Conflicts(&n.disks[j]) {
					return volumes.ReasonDisk
				}
			}
		}
	}
	if p.needs == nil {
		return ""
	}
	if p.profile.without&withoutRestrictions == 0 {
		for _, key := range p.needs.Single {
			// n may be a node as if some pods were gone from it, or more there.
			users := p.among.users[key] + n.claims[key]
			if real := p.among.nodes[n.name]; real != nil {
				users -= real.claims[key]
			}
			if users > 0 {
				return reasonSingle
			}
		}
	}
	if p.profile.without&withoutLimits == 0 {
		return p.needs.OverLimit(n.name, n.claims)
	}
	return ""
}

// sameClaims tells whether the devices that two revisions of a pod claim have
// the same names.
func sameClaims(a, b *corev1.Pod) bool {
	return len(a.Status.ResourceClaimStatuses)+len(b.Status.ResourceClaimStatuses) == 0 ||
		reflect.DeepEqual(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses)
}
