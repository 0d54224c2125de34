// Package persistentvolume is the loop that binds claims to volumes: it gives
// a claim the smallest free volume that satisfies it, or asks the provisioner
// of its class for one, and says of each volume whether somebody has it.
//
//	claim: Pending -> Bound -> Lost        (its volume went away)
//	volume: Pending -> Available -> Bound -> Released -> Failed
//
// A volume and a claim are bound in steps, each a write that only holds when
// nobody wrote before: the volume's claimRef (from there on nobody else gets
// it), the claim's volumeName, the claim's status. Whoever meant a volume for a
// claim, or a claim for a volume, gets just that. Claims of a class that waits
// for its first consumer get only what the scheduler (or a person) chose.
//
// Use: New(options).Run(ctx). The loop has two sorts of keys: claims by
// namespace and name, volumes by name alone. plan_claim.go and plan_volume.go
// decide, without I/O.
//
// Concurrency: as package loop. Two claims that want one volume find out by
// the second's conflict.
//
// Failure: a view may be late. Before a claim is called lost or a volume
// released, the server itself is asked.
//
// Deviations from upstream: volumes of the policy Recycle are not scrubbed but
// fail with an event, which is what upstream does without a recycler; volumes
// of the drivers that were once built into Kubernetes are not translated to
// their CSI drivers' names.
//
// See https://kubernetes.io/docs/concepts/storage/persistent-volumes/#lifecycle-of-a-volume-and-claim.
package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// Name of the loop.
const Name = "persistentvolume"

// step is what is next for a claim or a volume: at most one write.
type step struct {
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
	status bool   // what is written is the status
	what   string // was done by the write: "gave volume v to the claim"

	// event is told when the write is done, or at once when there is none.
	event *event

	// final is set for what cannot be taken back: it is to be planned again
	// with what the server itself says.
	final bool

	// Without a write: what is waited for. Both empty: nothing.
	on, why string
}

type event struct {
	about           client.Object
	warning         bool
	reason, message string
}

func (e *event) kind() string {
	if e.warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// outcome of a step without a write.
func (s *step) outcome() loop.Outcome {
	if s.why == "" {
		return loop.Done()
	}
	return loop.WaitFor(s.on, "%s", s.why)
}
