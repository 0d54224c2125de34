package cronjob

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)

func hourly(edits ...func(*batchv1.CronJob)) *batchv1.CronJob {
	c := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick", Namespace: "default", UID: "cron", CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour))},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", TimeZone: new("UTC"), ConcurrencyPolicy: batchv1.AllowConcurrent,
			SuccessfulJobsHistoryLimit: new(int32(3)), FailedJobsHistoryLimit: new(int32(1)),
		},
	}
	served(now.Add(-90 * time.Minute))(c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func served(at time.Time) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Status.LastScheduleTime = &metav1.Time{Time: at} }
}
func deadline(seconds int64) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &seconds }
}
func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = p }
}
func knows(names ...string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) {
		for _, n := range names {
			c.Status.Active = append(c.Status.Active, corev1.ObjectReference{Name: n, UID: types.UID(n)})
		}
	}
}

func newJob(name string, ended batchv1.JobConditionType, age time.Duration) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	j.Status.StartTime = &metav1.Time{Time: now.Add(-age)}
	if ended != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: ended, Status: corev1.ConditionTrue}}
	}
	return j
}

func tell(s step) string {
	text := "nothing"
	switch {
	case s.status != nil:
		text = fmt.Sprintf("status of %d", len(s.status.Active))
	case s.remove != nil:
		text = "remove " + s.remove.Name
	case s.create != nil:
		text = "create " + s.create.Annotations[batchv1.CronJobScheduledTimestampAnnotation]
	case s.wait != "":
		text = "wait for " + s.on
	}
	for _, e := range s.events {
		text += ", " + e.reason
	}
	return text
}

func TestPlan(t *testing.T) {
	suspended := func(c *batchv1.CronJob) { c.Spec.Suspend = new(true) }
	every := func(schedule string) func(*batchv1.CronJob) {
		return func(c *batchv1.CronJob) { c.Spec.Schedule = schedule }
	}
	ended := newJob("old", batchv1.JobComplete, 3*time.Hour)
	rows := []struct {
		name string
		cron *batchv1.CronJob
		jobs []*batchv1.Job
		want string
	}{
		{"a time is due", hourly(), nil, "create 2026-03-01T12:00:00Z"},
		{"it was served", hourly(served(now.Add(-30 * time.Minute))), nil, "nothing"},
		{"several were missed: the latest", hourly(served(now.Add(-10 * time.Hour))), nil, "create 2026-03-01T12:00:00Z"},
		{"more than a hundred were missed", hourly(every("* * * * *"), served(now.Add(-24*time.Hour))), nil, "create 2026-03-01T12:30:00Z, TooManyMissedTimes"},
		{"never served", hourly(func(c *batchv1.CronJob) { c.Status.LastScheduleTime = nil }), nil, "create 2026-03-01T12:00:00Z"},
		{"too late", hourly(deadline(600)), nil, "nothing"},
		{"just in time", hourly(deadline(1800)), nil, "create 2026-03-01T12:00:00Z"},
		{"suspended", hourly(suspended), nil, "nothing"},
		{"unknown to the status", hourly(), []*batchv1.Job{newJob("a", "", time.Hour)}, "status of 1"},
		{"allowed beside another", hourly(knows("a")), []*batchv1.Job{newJob("a", "", time.Hour)}, "create 2026-03-01T12:00:00Z"},
		{"forbidden beside another", hourly(knows("a"), policy(batchv1.ForbidConcurrent)), []*batchv1.Job{newJob("a", "", time.Hour)}, "wait for Job default/a, JobAlreadyActive"},
		{"forbidden, and the other has ended", hourly(policy(batchv1.ForbidConcurrent)), []*batchv1.Job{ended}, "create 2026-03-01T12:00:00Z"},
		{"in the place of another", hourly(knows("a"), policy(batchv1.ReplaceConcurrent)), []*batchv1.Job{newJob("a", "", time.Hour)}, "remove a"},
		{"history of failures", hourly(), []*batchv1.Job{newJob("a", batchv1.JobFailed, time.Hour), newJob("b", batchv1.JobFailed, 2*time.Hour)}, "remove b"},
		{"history of successes", hourly(), []*batchv1.Job{ended, newJob("b", batchv1.JobComplete, time.Hour), newJob("c", batchv1.JobComplete, time.Hour), newJob("d", batchv1.JobComplete, time.Hour)}, "remove old"},
		{"a schedule that is none", hourly(every("x")), nil, "wait for , UnparseableSchedule"},
	}
	for _, row := range rows {
		if got := tell(plan(world{cron: row.cron, jobs: row.jobs, now: now})); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	if s := plan(world{cron: hourly(served(now.Add(-30 * time.Minute))), now: now}); s.after != 30*time.Minute {
		t.Errorf("looks again after %v, want 30m", s.after)
	}
}

// What a crash kept from the status is read from the Jobs.
func TestStatusByJobs(t *testing.T) {
	j := newJob("tick-1", batchv1.JobComplete, time.Hour)
	j.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: "2026-03-01T13:00:00+01:00"}
	j.Status.CompletionTime = &metav1.Time{Time: now.Add(-time.Minute)}
	s := plan(world{cron: hourly(knows("gone")), jobs: []*batchv1.Job{j}, now: now})
	if s.status == nil || !s.status.LastScheduleTime.Equal(&metav1.Time{Time: now.Add(-30 * time.Minute)}) ||
		!s.status.LastSuccessfulTime.Equal(j.Status.CompletionTime) || len(s.status.Active) != 0 {
		t.Errorf("status is %+v", s.status)
	}
}

func TestLatest(t *testing.T) {
	rows := []struct {
		schedule, zone string
		from, now      string
		want           string
		about          int
	}{
		{"*/5 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:04:59Z", "", 0},
		{"*/5 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z", 1},
		{"* * * * *", "UTC", "2025-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:00Z", 525600},
		{"0 9 * * 1-5", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-01-05T07:59:00Z", "2026-01-02T08:00:00Z", 4},
		{"0 9 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z", "2026-03-30T07:00:00Z", 3},
		// 02:30 does not exist on the day that the clock is put forward.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "", 0},
		{"30 2 29 2 *", "UTC", "2021-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2024-02-29T02:30:00Z", 1},
		{"@daily", "America/New_York", "2026-01-01T06:00:00Z", "2026-01-02T06:00:00Z", "2026-01-02T05:00:00Z", 1},
	}
	for _, row := range rows {
		times, _, err := parse(&batchv1.CronJobSpec{Schedule: row.schedule, TimeZone: &row.zone})
		if err != nil {
			t.Fatal(err)
		}
		from, _ := time.Parse(time.RFC3339, row.from)
		now, _ := time.Parse(time.RFC3339, row.now)
		due, about := latest(times, from, now)
		got := ""
		if !due.IsZero() {
			got = due.UTC().Format(time.RFC3339)
		}
		if got != row.want || about != row.about {
			t.Errorf("%s in %s at %s: %s of %d, want %s of %d", row.schedule, row.zone, row.now, got, about, row.want, row.about)
		}
	}
}
