package volume

import (
	"testing"
	"time"
)

// A token is judged by the clock on the wall, which may be set.
func TestTokenDue(t *testing.T) {
	issued := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	tok := token{value: "x", issued: issued, renew: issued.Add(48 * time.Minute)}
	for after, want := range map[time.Duration]bool{
		0: false, 47 * time.Minute: false, 48 * time.Minute: true, 24 * time.Hour: true,
		-10 * time.Second: false, -time.Hour: true,
	} {
		if got := tok.due(issued.Add(after)); got != want {
			t.Errorf("%v after it was issued: due %v, want %v", after, got, want)
		}
	}
}
