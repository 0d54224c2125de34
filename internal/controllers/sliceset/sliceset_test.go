package sliceset

import (
	"fmt"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slice has a name, an address, and a note that merge leaves alone.
func slice(name, address, note string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"note": note}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

func merge(into, want *discoveryv1.EndpointSlice) { into.Endpoints = want.Endpoints }

func text(s Step) string {
	tell := func(verb string, s *discoveryv1.EndpointSlice) string {
		return fmt.Sprintf("%s %s %s %s", verb, s.Name, s.Endpoints[0].Addresses[0], s.Annotations["note"])
	}
	switch {
	case s.Create != nil:
		return tell("create", s.Create)
	case s.Update != nil:
		return tell("update", s.Update)
	case s.Remove != nil:
		return tell("remove", s.Remove)
	}
	return ""
}

func TestNext(t *testing.T) {
	going := slice("c", "3", "theirs")
	going.DeletionTimestamp = &metav1.Time{}
	type set = []*discoveryv1.EndpointSlice
	for _, test := range []struct {
		name      string
		had, want set
		next      string
	}{
		{"nothing", nil, nil, ""},
		{"as wanted, but for what others say", set{slice("a", "1", "theirs")}, set{slice("a", "1", "ours")}, ""},
		{"what is missing comes before what is too much", set{slice("c", "3", "theirs")}, set{slice("a", "1", "ours")}, "create a 1 ours"},
		{"what is wrong comes before what is too much", set{slice("c", "3", "theirs"), slice("a", "2", "theirs")}, set{slice("a", "1", "ours")}, "update a 1 theirs"},
		{"too much", set{slice("a", "1", "theirs"), slice("c", "3", "theirs")}, set{slice("a", "1", "ours")}, "remove c 3 theirs"},
		{"what goes is not told twice", set{going}, nil, ""},
	} {
		if got := text(Next(test.had, test.want, merge)); got != test.next {
			t.Errorf("%s: got %q, want %q", test.name, got, test.next)
		}
	}
	had := slice("a", "2", "theirs")
	Next(set{had}, set{slice("a", "1", "ours")}, merge)
	if had.Endpoints[0].Addresses[0] != "2" {
		t.Error("a slice that is shared with the view was changed")
	}
}
