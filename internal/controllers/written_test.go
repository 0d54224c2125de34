package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/setpoint-project/setpoint/internal/client"
	"github.com/setpoint-project/setpoint/loop"
)

// lagging is a view that shows a revision only when told to.
type lagging struct {
	client.View
	asked []string
	err   error
}

func (v *lagging) WaitFor(_ context.Context, revision string) error {
	v.asked = append(v.asked, revision)
	return v.err
}

func TestWrittenWaitsForTheLatest(t *testing.T) {
	var w Written
	pods, sets := &lagging{}, &lagging{}
	web, other := loop.Key{Name: "web"}, loop.Key{Name: "other"}
	for _, revision := range []string{"9", "101", "11"} { // a batch ends in no order
		w.NoteRevision(web, pods, revision)
	}
	w.NoteRevision(web, sets, "50")
	if err := w.Wait(context.Background(), other); err != nil || len(pods.asked) != 0 {
		t.Errorf("another key waits: %v, %v", err, pods.asked)
	}
	pods.err = errors.New("the end")
	if w.Wait(context.Background(), web) == nil {
		t.Error("the wait did not fail with its view")
	}
	pods.err = nil
	pods.asked, sets.asked = nil, nil
	if err := w.Wait(context.Background(), web); err != nil || !slices.Equal(pods.asked, []string{"101"}) || !slices.Equal(sets.asked, []string{"50"}) {
		t.Errorf("after a failure it waits for %v and %v: %v", pods.asked, sets.asked, err)
	}
	if err := w.Wait(context.Background(), web); err != nil || len(pods.asked) != 1 {
		t.Errorf("it waits again for %v", pods.asked)
	}
}

func TestWrittenOutcome(t *testing.T) {
	var w Written
	v := &lagging{}
	key := loop.Key{Name: "web"}
	made := pod("p", "", true)
	made.ResourceVersion = "7"
	o, err := w.Outcome(key, v, made, nil, "create", "slice %s", "web-1")
	if err != nil || o.State != loop.Acting || o.Reason != "created slice web-1" {
		t.Errorf("got %+v, %v", o, err)
	}
	if w.Wait(context.Background(), key); len(v.asked) != 1 || v.asked[0] != "7" {
		t.Errorf("it waits for %v", v.asked)
	}
	refused := errors.New("forbidden")
	if _, err = w.Outcome(key, v, nil, refused, "adopt", "pod %s", "p"); err == nil || err.Error() != "adopt pod p: forbidden" || !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
