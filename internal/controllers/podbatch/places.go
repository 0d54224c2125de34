package podbatch

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Places remember, of an owner that has a pod in each of its places (indexes,
// nodes), which one was seen there last. The name of the next is drawn from
// it, so that a client that waits for the last one's name to go sees it go.
//
// All copies of a loop that saw the same pod draw the same name. One that has
// crashed, or saw another, may draw a name of its own while its view lags: that
// makes a pod too many, which the loop takes away like any other.
//
// The zero value is ready.
type Places[K comparable] struct {
	last map[K]tenant
	look uint64 // counts the calls of See
}

type tenant struct {
	uid     types.UID
	created time.Time
	look    uint64 // when it was last seen
}

// See notes the pods that are there now, all that the owner has. place is where
// a pod is; false: it does not matter. Of several in a place the youngest is
// noted, by uid when they are of the same age.
func (p *Places[K]) See(pods []*corev1.Pod, place func(*corev1.Pod) (K, bool)) {
	p.look++
	for _, pod := range pods {
		k, ok := place(pod)
		if !ok {
			continue
		}
		had := p.last[k]
		if had.look == p.look && cmp.Or(pod.CreationTimestamp.Compare(had.created), cmp.Compare(pod.UID, had.uid)) < 0 {
			continue
		}
		if p.last == nil {
			p.last = map[K]tenant{}
		}
		p.last[k] = tenant{pod.UID, pod.CreationTimestamp.Time, p.look}
	}
}

// Keep forgets the places of which wanted is false.
func (p *Places[K]) Keep(wanted func(K) bool) {
	maps.DeleteFunc(p.last, func(k K, _ tenant) bool { return !wanted(k) })
}

// Len is the number of places that are remembered.
func (p *Places[K]) Len() int { return len(p.last) }

// Sway makes names depend on the pods that are in a place, or, when there are
// none, on the last that was.
func (p *Places[K]) Sway(names *Names, place K, there []*corev1.Pod) {
	for _, pod := range there {
		names.Saw(pod.UID)
	}
	if last, ok := p.last[place]; ok && len(there) == 0 {
		names.Saw(last.uid)
	}
}
