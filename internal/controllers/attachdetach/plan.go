package attachdetach

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// forceAfter is how long a volume that nobody needs any more stays attached to
// a node that is not ready and has not said that it is unmounted: upstream's.
const forceAfter = 6 * time.Minute

// place is a node, as one volume sees it.
type place struct {
	node string
	// seen is the Node from which the rest was read, and which is written: what
	// it has come to say meanwhile makes the write fail. nil: there is none.
	seen         *corev1.Node
	known        bool // there is such a Node
	managed      bool // its kubelet leaves attaching to this loop
	ready        bool
	outOfService bool // somebody has said that it is off for good

	pods       []*corev1.Pod               // that need the volume there, the oldest first
	attachment *storagev1.VolumeAttachment // of this loop's name; nil: none
	foreign    bool                        // somebody has attached the volume there under another name
	reported   bool                        // the node's status says that it is attached
	inUse      bool                        // and that it is mounted, or about to be
	unneeded   time.Duration               // since when nobody needs it
}

func (p *place) attached() bool {
	return p.attachment != nil && p.attachment.DeletionTimestamp == nil && p.attachment.Status.Attached
}

// taken tells whether anybody has the volume attached there, or is about to.
func (p *place) taken() bool { return p.attachment != nil || p.foreign }

// verb is a step that is taken for one place.
type verb string

const (
	none     verb = ""
	create   verb = "attach"   // make the VolumeAttachment
	remove   verb = "detach"   // delete it
	report   verb = "report"   // say on the Node that the volume is attached
	withdraw verb = "withdraw" // take that back
)

// step is what is next for one place: a verb, or what is waited for.
type step struct {
	at    *place
	do    verb
	on    string // what is waited for; "": nothing
	why   string
	after time.Duration
	// blocked: the volume may be on one node only, and is on another.
	blocked bool
	// problem is what an attacher says it failed by; "": nothing.
	problem string
}

// plan decides what is next at each place of a volume, in the order of nodes.
// It is pure.
//
//	needed:     create the attachment -> its attacher attaches -> report
//	not needed: the kubelet unmounts  -> withdraw -> delete the attachment -> its attacher detaches
//
// What a node's status reports is what its kubelet mounts by. So it is taken
// back in a write that fails if the kubelet has said meanwhile that it uses the
// volume, and before anything is detached.
func plan(places []*place, exclusive bool) []step {
	slices.SortFunc(places, func(a, b *place) int { return strings.Compare(a.node, b.node) })
	var holder *place
	if exclusive {
		holder = first(places)
	}
	steps := make([]step, len(places))
	for i, p := range places {
		steps[i] = next(p, holder)
		steps[i].at = p
	}
	return steps
}

func next(p, holder *place) step {
	other := holder != nil && holder != p
	needed := len(p.pods) > 0
	switch a := p.attachment; {
	case p.reported && !p.attached():
		return step{do: withdraw}
	case a == nil && (!needed || !p.known || !p.managed):
		return step{}
	case a == nil && other:
		return step{on: "Node " + holder.node, why: "the volume may be attached to one node only, and is to this one", blocked: true}
	case a == nil:
		return step{do: create}
	case a.DeletionTimestamp != nil:
		return step{on: on(a), why: waits("its attacher is to detach the volume", a.Status.DetachError), problem: message(a.Status.DetachError)}
	case needed && !(other && holder.taken()):
		return attaching(p)
	}
	return detaching(p)
}

// attaching is the next step of an attachment that is needed.
func attaching(p *place) step {
	switch a := p.attachment; {
	case !a.Status.Attached:
		return step{on: on(a), why: waits("its attacher is to attach the volume", a.Status.AttachError), problem: message(a.Status.AttachError)}
	case !p.reported && p.known:
		return step{do: report}
	}
	return step{}
}

// detaching is the next step of an attachment that nobody needs.
func detaching(p *place) step {
	switch left := forceAfter - p.unneeded; {
	case p.outOfService:
	case p.known && !p.inUse:
	case p.known && p.ready:
		return step{on: "Node " + p.node, why: "it is to unmount the volume, which no pod there needs any more"}
	case left > 0:
		return step{on: "Node " + p.node, why: "it is not there to unmount the volume, which no pod there needs any more; it is given some time", after: left}
	}
	if p.reported {
		return step{do: withdraw}
	}
	return step{do: remove}
}

func on(a *storagev1.VolumeAttachment) string { return "VolumeAttachment " + a.Name }

func message(e *storagev1.VolumeError) string {
	if e == nil {
		return ""
	}
	return e.Message
}

func waits(what string, e *storagev1.VolumeError) string {
	if e == nil {
		return what
	}
	return what + "; it says: " + e.Message
}

// first is the place that a volume belongs to that may be in one only: where it
// is mounted, else attached, else where it was asked for first. With two copies
// of the loop at once two places may have been given an attachment.
func first(places []*place) *place {
	if len(places) == 0 {
		return nil
	}
	return slices.MinFunc(places, func(a, b *place) int {
		return cmp.Or(
			before(a.inUse && a.taken(), b.inUse && b.taken()),
			before(a.reported, b.reported),
			before(a.foreign, b.foreign),
			before(a.attachment != nil && a.attachment.Status.Attached, b.attachment != nil && b.attachment.Status.Attached),
			before(a.attachment != nil, b.attachment != nil),
			before(a.known && a.managed, b.known && b.managed), // others are never given one
			older(a, b), strings.Compare(a.node, b.node))
	})
}

// before orders what is so before what is not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func older(a, b *place) int {
	if a.attachment != nil && b.attachment != nil {
		return a.attachment.CreationTimestamp.Compare(b.attachment.CreationTimestamp.Time)
	}
	if d := before(len(a.pods) > 0, len(b.pods) > 0); d != 0 || len(a.pods) == 0 {
		return d
	}
	return a.pods[0].CreationTimestamp.Compare(b.pods[0].CreationTimestamp.Time)
}
