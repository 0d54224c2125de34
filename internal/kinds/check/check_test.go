package check

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWords(t *testing.T) {
	var c Errors
	p := field.NewPath("spec")
	c.Required(p, "a", "")
	c.Invalid(p, "b", 1, "is odd")
	c.Forbidden(p, "", "no")
	c.Duplicate(p.Child("l").Index(2), "", "x")
	c.NotFound(p, "c", "y")
	c.TooMany(p, "d", 3, 2)
	c.Port(p, "e", 0)
	c.NonNegative(p, "f", -1)
	OneOf(&c, p, "g", "", "A")
	OneOf(&c, p, "g", "B", "A", "C")
	Among(&c, p, "h", "", "A")
	want := []string{
		"spec.a: Required value",
		"spec.b: Invalid value: 1: is odd",
		"spec: Forbidden: no",
		`spec.l[2]: Duplicate value: "x"`,
		`spec.c: Not found: "y"`,
		"spec.d: Too many: 3: must have at most 2 items",
		"spec.e: Invalid value: 0: must be between 1 and 65535, inclusive",
		"spec.f: Invalid value: -1: must be greater than or equal to 0",
		"spec.g: Required value",
		`spec.g: Unsupported value: "B": supported values: "A", "C"`,
		`spec.h: Unsupported value: "": supported values: "A"`,
	}
	var got []string
	for _, err := range c.List {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnique(t *testing.T) {
	var u Unique[string]
	for i := range 3 * fewValues {
		v := strconv.Itoa(i)
		if u.Has(v) || u.Seen(v) {
			t.Fatalf("%s was never there", v)
		}
		for j := range i + 1 {
			if !u.Seen(strconv.Itoa(j)) {
				t.Fatalf("%d of %d forgotten", j, i)
			}
		}
	}
}

// TestNoPathsForTheValid: a valid object costs no allocation here.
func TestNoPathsForTheValid(t *testing.T) {
	p := field.NewPath("spec")
	var c Errors
	least := 1.0 // of some tries: others in this process may allocate meanwhile
	for range 10 {
		least = min(least, testing.AllocsPerRun(100, func() {
			c.Label(p, "a", "abc")
			c.NotEmpty(p, "b", "x")
			c.Port(p, "c", 80)
			OneOf(&c, p, "d", "A", "B", "A")
		}))
	}
	if least > 0 {
		t.Errorf("%v allocations", least)
	}
}
