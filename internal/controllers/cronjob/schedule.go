package cronjob

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones on machines that know none

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// parse reads a schedule in its time zone; without one it is the process's, as
// upstream. On the day that the clock is put forward times in the gap are left
// out, on the day it is put back those in the doubled hour come once or twice,
// as the library has it.
func parse(spec *batchv1.CronJobSpec) (cron.Schedule, *time.Location, error) {
	text, zone := spec.Schedule, time.Local
	if spec.TimeZone != nil && !strings.Contains(text, "TZ") {
		var err error
		if zone, err = time.LoadLocation(*spec.TimeZone); err != nil {
			return nil, nil, fmt.Errorf("spec.timeZone: %w", err)
		}
		text = "TZ=" + *spec.TimeZone + " " + text
	}
	times, err := cron.ParseStandard(text)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.schedule: %w", err)
	}
	return times, zone, nil
}

// latest is the last time after from and not after now, zero when there is
// none, and about how many there are.
//
// It does not go through all of them: a CronJob may have missed a year of
// minutes. It looks back from now, twice as far each time, until there is one.
func latest(times cron.Schedule, from, now time.Time) (due time.Time, about int) {
	first := times.Next(from)
	if first.IsZero() || first.After(now) {
		return time.Time{}, 0
	}
	about = 1
	if second := times.Next(first); !second.IsZero() && second.After(first) {
		about += int(now.Sub(first) / second.Sub(first))
	}
	due = first
	for back := time.Minute; now.Add(-back).After(first); back *= 2 {
		if t := times.Next(now.Add(-back)); !t.IsZero() && !t.After(now) {
			due = t
			break
		}
	}
	for t := times.Next(due); !t.IsZero() && !t.After(now); t = times.Next(t) {
		due = t
	}
	return due, about
}
