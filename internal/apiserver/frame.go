package apiserver

import (
	"encoding/binary"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frameCache holds a change as watchers write it: each combination of version,
// medium, form and event type is made once, by the first who needs it.
type frameCache struct {
	mu     sync.Mutex
	frames []cachedFrame // guarded by mu
}

type cachedFrame struct {
	encoding
	event watch.EventType
}

// seen is what a change looks like to a subscriber: objects that begin to match
// a selector are added, objects that no longer do are deleted.
func (s *Server) seen(sub *subscriber, c *change) (watch.EventType, *entry, error) {
	f := sub.filter
	deleted := c.ev.Deleted()
	if f.plain() {
		switch {
		case deleted:
			if c.ev.Prev == nil {
				return "", nil, nil
			}
			e, err := s.lastState(c.res, c.ev)
			return watch.Deleted, e, err
		case c.ev.Prev == nil:
			e, err := s.peek(c.res, c.ev.Record)
			return watch.Added, e, err
		}
		e, err := s.peek(c.res, c.ev.Record)
		return watch.Modified, e, err
	}
	was, is := false, false
	var now *entry
	if c.ev.Prev != nil {
		prev, err := s.peek(c.res, c.ev.Prev)
		if err != nil {
			return "", nil, err
		}
		was = f.matchesObject(c.res, prev.obj)
	}
	if !deleted {
		var err error
		if now, err = s.peek(c.res, c.ev.Record); err != nil {
			return "", nil, err
		}
		is = f.matchesObject(c.res, now.obj)
	}
	switch {
	case is && was:
		return watch.Modified, now, nil
	case is:
		return watch.Added, now, nil
	case was:
		// The object as it last matched, under the revision of this change.
		if deleted {
			e, err := s.lastState(c.res, c.ev)
			return watch.Deleted, e, err
		}
		e, err := s.leftState(c)
		return watch.Deleted, e, err
	}
	return "", nil, nil
}

// leftState is the object as it was before a change, under the change's
// revision.
func (s *Server) leftState(c *change) (*entry, error) {
	prev, err := s.peek(c.res, c.ev.Prev)
	if err != nil {
		return nil, err
	}
	obj := prev.obj.DeepCopyObject().(interface {
		runtime.Object
		metav1.Object
	})
	obj.SetResourceVersion(formatRevision(c.ev.Record.Revision))
	return &entry{res: c.res, obj: obj}, nil
}

// frame is a change as it crosses the wire. The bytes are shared.
func (c *change) frame(sv *served, m medium, f form, t watch.EventType, e *entry) ([]byte, error) {
	c.frames.mu.Lock()
	defer c.frames.mu.Unlock()
	for i := range c.frames.frames {
		cf := &c.frames.frames[i]
		if cf.version == uint8(sv.index) && cf.medium == m && cf.form == f && cf.event == t {
			return cf.data, nil
		}
	}
	data, err := e.encodePassing(sv, m, f)
	if err != nil {
		return nil, err
	}
	data = appendFrame(make([]byte, 0, len(data)+48), m, t, data)
	c.frames.frames = append(c.frames.frames, cachedFrame{encoding{uint8(sv.index), m, f, data}, t})
	return data, nil
}

// appendFrame writes one watch event around an encoded object: a line of JSON,
// an item of CBOR, or a message behind its length.
func appendFrame(b []byte, m medium, t watch.EventType, object []byte) []byte {
	if m == mediumJSON {
		b = append(b, `{"type":"`...)
		b = append(b, t...)
		b = append(b, `","object":`...)
		b = append(b, object...)
		return append(b, '}', '\n')
	}
	if m == mediumCBOR {
		return appendCBORFrame(b, t, object)
	}
	raw := 1 + uvarintLen(uint64(len(object))) + len(object) // RawExtension{raw}
	size := 2 + len(t) + 1 + uvarintLen(uint64(raw)) + raw   // WatchEvent{type, object}
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = appendProtoString(b, 1, string(t))
	b = append(b, 2<<3|2)
	b = appendUvarint(b, uint64(raw))
	return appendProtoBytes(b, 1, object)
}
