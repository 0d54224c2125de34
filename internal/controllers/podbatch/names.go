package podbatch

import (
	"encoding/binary"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// suffixLength is what the API server appends to a generateName, and
	// longest what it keeps of it.
	suffixLength = 5
	longest      = 63 - suffixLength
	// letters are those of the API server's own suffixes: no vowels, no words.
	letters = "bcdfghjklmnpqrstvwxz2456789"
)

// Names draws names for new pods from what is seen, so that two copies of a
// loop that see the same draw the same, and the one who comes second is told
// that the pod is there already. They look like any generated name.
type Names struct {
	seed, n uint64
}

// Seed starts names from texts and numbers that stand for what is seen.
func Seed(texts []string, numbers ...uint64) *Names {
	h := fnv.New64a()
	for _, t := range texts {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	var b [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	return &Names{seed: h.Sum64()}
}

// Saw adds an object whose presence makes a difference; the order makes none.
func (m *Names) Saw(uid types.UID) {
	h := fnv.New64a()
	h.Write([]byte(uid))
	m.seed += mix(h.Sum64())
}

// Next is prefix, cut where the API server cuts a generateName, and a suffix.
func (m *Names) Next(prefix string) string {
	m.n++
	x := mix(m.seed + m.n*0x9e3779b97f4a7c15)
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = letters[x%uint64(len(letters))]
		x /= uint64(len(letters))
	}
	return Prefix(prefix, "") + string(suffix)
}

// Prefix is name and end, of which name is cut when a generated name would
// become too long.
func Prefix(name, end string) string {
	if len(name)+len(end) > longest {
		name = name[:longest-len(end)]
	}
	return name + end
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
