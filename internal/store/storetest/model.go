package storetest

import (
	"slices"
	"strings"

	"github.com/setpoint-project/setpoint/internal/store"
)

// model is what a store should be, in the dumbest way there is: a list of all
// events, played again from the start for every question.
type model struct {
	revision int64
	oldest   int64
	events   []store.Event
}

func newModel() *model { return &model{revision: 1, oldest: 1} }

// at is the live set at a revision.
func (m *model) at(revision int64) map[string]*store.Record {
	live := map[string]*store.Record{}
	for _, e := range m.events {
		if e.Record.Revision > revision {
			break
		}
		if e.Deleted() {
			delete(live, e.Record.Key)
		} else {
			live[e.Record.Key] = e.Record
		}
	}
	return live
}

func (m *model) get(key string) *store.Record { return m.at(m.revision)[key] }

// write is a Put, or with a nil value a Delete.
func (m *model) write(key string, value []byte, expect int64) (store.Event, error) {
	prev := m.get(key)
	if expect != store.Any && expect != revisionOf(prev) || value == nil && prev == nil {
		return store.Event{}, &store.Conflict{Key: key, Expect: expect, Current: prev}
	}
	m.revision++
	r := &store.Record{Key: key, Value: value, Revision: m.revision, Created: m.revision}
	if prev != nil {
		r.Created = prev.Created
	}
	e := store.Event{Record: r, Prev: prev}
	m.events = append(m.events, e)
	return e, nil
}

func (m *model) scan(r store.Range) (store.Result, error) {
	revision := r.Revision
	switch {
	case revision == 0:
		revision = m.revision
	case revision > m.revision:
		return store.Result{}, store.ErrFuture
	case revision < m.oldest:
		return store.Result{}, store.ErrCompacted
	}
	res := store.Result{Revision: revision}
	for key, rec := range m.at(revision) {
		if strings.HasPrefix(key, r.Prefix) && key > r.After {
			res.Records = append(res.Records, rec)
		}
	}
	slices.SortFunc(res.Records, func(a, b *store.Record) int { return strings.Compare(a.Key, b.Key) })
	if r.Limit > 0 && len(res.Records) > r.Limit {
		res.Remaining = len(res.Records) - r.Limit
		res.Records = res.Records[:r.Limit]
	}
	return res, nil
}

// since lists the events with prefix after a revision.
func (m *model) since(prefix string, after int64) []store.Event {
	var events []store.Event
	for _, e := range m.events {
		if e.Record.Revision > after && strings.HasPrefix(e.Record.Key, prefix) {
			events = append(events, e)
		}
	}
	return events
}
