package controllers

import (
	"context"
	"errors"
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
	for w.Wait(context.Background(), web) == nil {
	}
	pods.err = nil
	pods.asked = nil
	if err := w.Wait(context.Background(), web); err != nil || len(pods.asked) != 1 || pods.asked[0] != "101" {
		t.Errorf("after a failure it waits for %v: %v", pods.asked, err)
	}
	if err := w.Wait(context.Background(), web); err != nil || len(pods.asked) != 1 {
		t.Errorf("it waits again for %v", pods.asked)
	}
}
