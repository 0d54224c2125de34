package legacytokens

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A year without use makes a token invalid, another lets it go.
func TestPlan(t *testing.T) {
	at := func(text string) time.Time {
		d, ok := day(text)
		if !ok {
			t.Fatal(text)
		}
		return d
	}
	now := at("2026-06-01")
	const year = DefaultPeriod
	for name, c := range map[string]struct {
		created, since, used, invalid string
		want                          step
	}{
		"nobody notes uses":         {created: "2020-01-01", want: step{}},
		"uses are noted since soon": {created: "2020-01-01", since: "2026-01-01", want: step{wait: at("2026-01-01").Add(year).Sub(now)}},
		"never used":                {created: "2020-01-01", since: "2025-05-31", want: step{mark: true}},
		"used":                      {created: "2020-01-01", since: "2024-01-01", used: "2026-05-01", want: step{wait: at("2026-05-01").Add(year).Sub(now)}},
		"used long ago":             {created: "2020-01-01", since: "2024-01-01", used: "2025-05-01", want: step{mark: true}},
		"new":                       {created: "2026-05-01", since: "2024-01-01", want: step{wait: at("2026-05-01").Add(year).Sub(now)}},
		"marked":                    {created: "2020-01-01", since: "2024-01-01", used: "2024-01-01", invalid: "2026-01-01", want: step{wait: at("2026-01-01").Add(year).Sub(now)}},
		"marked by nonsense":        {created: "2020-01-01", since: "2024-01-01", used: "2024-01-01", invalid: "x", want: step{mark: true}},
		"marked long ago":           {created: "2020-01-01", since: "2023-01-01", used: "2023-01-01", invalid: "2025-05-31", want: step{remove: true}},
		"marked, and used since":    {created: "2020-01-01", since: "2023-01-01", used: "2026-05-01", invalid: "2024-05-31", want: step{wait: at("2026-05-01").Add(year).Sub(now)}},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(c.created)), Labels: map[string]string{}}}
		var since time.Time
		if c.since != "" {
			since = at(c.since)
		}
		if c.used != "" {
			s.Labels[lastUsed] = c.used
		}
		if c.invalid != "" {
			s.Labels[invalidSince] = c.invalid
		}
		if got := plan(s, since, now, year); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
