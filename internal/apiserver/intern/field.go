package intern

import (
	"encoding/binary"
	"sync"
)

// field is one field of a message.
type field struct {
	number int
	whole  []byte // with its tag
	body   []byte // of what has a length: a message, a string; else nil
}

// The types of fields that proto2 and proto3 write.
// https://protobuf.dev/programming-guides/encoding/#structure
const (
	typeVarint = 0
	typeI64    = 1
	typeLen    = 2
	typeI32    = 5
)

// next splits off the first field of a message.
func next(b []byte) (f field, rest []byte, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return field{}, nil, false
	}
	f.number = int(tag >> 3)
	start := n
	switch tag & 7 {
	case typeVarint:
		_, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return field{}, nil, false
		}
		n += m
	case typeI64:
		n += 8
	case typeI32:
		n += 4
	case typeLen:
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)) {
			return field{}, nil, false
		}
		start = n + m
		n = start + int(size)
	default: // groups, which nobody writes any more
		return field{}, nil, false
	}
	if n > len(b) {
		return field{}, nil, false
	}
	if tag&7 == typeLen {
		f.body = b[start:n:n]
	}
	f.whole = b[:n:n]
	return f, b[n:], true
}

// fields is a set of field numbers below 64.
type fields uint64

func fieldSet(numbers ...int) (s fields) {
	for _, n := range numbers {
		s |= 1 << n
	}
	return s
}

func (s fields) has(number int) bool { return number < 64 && s>>number&1 == 1 }

// buffers are the parts of one message, sorted. What reads them copies.
type buffers struct{ own, common, volumes, affinity []byte }

var buffersPool = sync.Pool{New: func() any { return &buffers{} }}

func (b *buffers) free() {
	if cap(b.own)+cap(b.common)+cap(b.volumes)+cap(b.affinity) > 64<<10 {
		return // one large object shall not be paid for again and again
	}
	b.own, b.common, b.volumes, b.affinity = b.own[:0], b.common[:0], b.volumes[:0], b.affinity[:0]
	buffersPool.Put(b)
}
