package mutate

import (
	"bytes"
	"testing"
)

// TestMutator: the same seed makes the same, another something else, and none
// more than there may be.
func TestMutator(t *testing.T) {
	seeds := [][]byte{[]byte(`{"a":[1,2,{"b":null}]}`), []byte("x: y\n"), {}}
	a, b, c, changed := New(1), New(1), New(2), 0
	for range 5000 {
		x, y, z := a.Bytes(seeds), b.Bytes(seeds), c.Bytes(seeds)
		if !bytes.Equal(x, y) {
			t.Fatalf("%q, and then %q", x, y)
		}
		if len(x) > maxLength {
			t.Fatalf("%d bytes", len(x))
		}
		if !bytes.Equal(x, z) {
			changed++
		}
	}
	if changed < 4000 {
		t.Errorf("only %d of 5000 depend on the seed", changed)
	}
	if string(seeds[0]) != `{"a":[1,2,{"b":null}]}` {
		t.Errorf("a seed was changed: %q", seeds[0])
	}
}
