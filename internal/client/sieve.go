package client

import (
	"container/list"
	"hash/maphash"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The limits are those of client-go's recorder, which people know.
const (
	spamBurst     = 25              // events about one object from one source at once
	spamEvery     = 5 * time.Minute // then one in this time
	alikeLimit    = 10              // texts that differ, of one reason, before they become one
	alikeWithin   = 10 * time.Minute
	sieveCapacity = 4096 // objects, reasons and texts remembered
	alikePrefix   = "(combined from similar events): "
)

// sieve lets events through, counts those of one text together, combines those
// of one reason whose texts differ, and holds back the rest. It is not safe
// for concurrent use.
type sieve struct {
	seed  maphash.Seed
	spam  lru[*bucket]
	alike lru[*texts]
	seen  lru[*written]
}

// bucket gives spamBurst tokens, and another every spamEvery.
type bucket struct {
	tokens float64
	at     time.Time
}

// texts of one reason about one object.
type texts struct {
	known map[uint64]struct{} // hashes
	last  time.Time
}

// written is an event as it was last written.
type written struct {
	name  string
	count int32
	first time.Time
}

func newSieve() *sieve {
	return &sieve{seed: maphash.MakeSeed(), spam: newLRU[*bucket](), alike: newLRU[*texts](), seen: newLRU[*written]()}
}

func (s *sieve) hash(text string) uint64 { return maphash.String(s.seed, text) }

// pass tells what to write: event, as the first of its text when the name of
// what it returns is the event's own, else to count up the one of that name.
// Nil: the event is held back. It changes event.
func (s *sieve) pass(event *corev1.Event, now time.Time) *written {
	object := event.Source.Component + "\x00" + event.Source.Host + "\x00" + event.InvolvedObject.Kind + "\x00" +
		event.Namespace + "\x00" + event.InvolvedObject.Name + "\x00" + string(event.InvolvedObject.UID) + "\x00" + event.InvolvedObject.FieldPath
	reason := object + "\x00" + event.Type + "\x00" + event.Reason

	text := event.Message
	group := s.alike.get(s.hash(reason), func() *texts { return &texts{known: map[uint64]struct{}{}} })
	if now.Sub(group.last) > alikeWithin {
		clear(group.known)
	}
	group.last = now
	_, known := group.known[s.hash(text)]
	if len(group.known) < alikeLimit || known {
		group.known[s.hash(text)] = struct{}{}
	} else {
		event.Message = alikePrefix + text
		text = alikePrefix
	}

	b := s.spam.get(s.hash(object), func() *bucket { return &bucket{tokens: spamBurst, at: now} })
	b.tokens = min(spamBurst, b.tokens+float64(now.Sub(b.at))/float64(spamEvery))
	b.at = now
	if b.tokens < 1 {
		return nil
	}
	b.tokens--

	w := s.seen.get(s.hash(reason+"\x00"+text), func() *written { return &written{} })
	w.count++
	if w.count == 1 {
		w.name, w.first = event.Name, event.FirstTimestamp.Time
	}
	event.Count = w.count
	event.FirstTimestamp.Time = w.first
	return w
}

// lru remembers the sieveCapacity values used last. Keys are hashes: should
// two collide, an event is counted with another.
type lru[V any] struct {
	order *list.List // of entry[V], the last used in front
	byKey map[uint64]*list.Element
}

type entry[V any] struct {
	key   uint64
	value V
}

func newLRU[V any]() lru[V] { return lru[V]{order: list.New(), byKey: map[uint64]*list.Element{}} }

// get returns the value of key, made when there is none.
func (l lru[V]) get(key uint64, make func() V) V {
	if e := l.byKey[key]; e != nil {
		l.order.MoveToFront(e)
		return e.Value.(entry[V]).value
	}
	if l.order.Len() >= sieveCapacity {
		oldest := l.order.Back()
		l.order.Remove(oldest)
		delete(l.byKey, oldest.Value.(entry[V]).key)
	}
	v := make()
	l.byKey[key] = l.order.PushFront(entry[V]{key, v})
	return v
}
