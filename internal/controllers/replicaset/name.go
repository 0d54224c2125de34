package replicaset

import (
	"encoding/binary"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"
)

// suffixLength is what the API server appends to a generateName.
const suffixLength = 5

// letters are those of the API server's own suffixes: no vowels, no words.
const letters = "bcdfghjklmnpqrstvwxz2456789"

// namer draws names for new pods from what the loop has seen: the ReplicaSet
// as of one write and the pods it owned. They look like any generated name,
// but two copies of the loop that see the same draw the same, and the one who
// comes second is told that the pod is there already.
type namer struct {
	prefix string
	seed   uint64
	n      uint64
}

func newNamer(w world) *namer {
	h := fnv.New64a()
	h.Write([]byte(w.rs.UID))
	h.Write([]byte(w.rs.ResourceVersion))
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w.memo.salt)
	h.Write(b[:])
	seed := h.Sum64()
	for _, pod := range w.pods {
		seed += mix(hashOf(pod.UID)) // the order of the pods does not matter
	}
	return &namer{prefix: w.rs.Name + "-", seed: seed}
}

func (m *namer) next() string {
	m.n++
	x := mix(m.seed + m.n*0x9e3779b97f4a7c15)
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = letters[x%uint64(len(letters))]
		x /= uint64(len(letters))
	}
	prefix := m.prefix
	const longest = 63 - suffixLength // as the API server cuts a generateName
	if len(prefix) > longest {
		prefix = prefix[:longest]
	}
	return prefix + string(suffix)
}

func hashOf(uid types.UID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(uid))
	return h.Sum64()
}

// mix is the finalizer of splitmix64: every bit of x sways every bit of the
// result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
