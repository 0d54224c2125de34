package fairness

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// tally counts the requests of a flow schema at a priority level. It outlives
// the plan that it is of.
type tally struct {
	schema, level                string
	dispatched, running, waiting atomic.Int64
	rejected                     [len(reasons)]atomic.Int64
}

// begin counts a request that begins to be served.
func (t *tally) begin() {
	t.dispatched.Add(1)
	t.running.Add(1)
}

// Why a request was rejected, as Kubernetes names it.
const (
	queueFull = iota
	concurrencyLimit
	timeOut
	cancelled
)

var reasons = [...]string{queueFull: "queue-full", concurrencyLimit: "concurrency-limit", timeOut: "time-out", cancelled: "cancelled"}

// tallyLocked finds the tally of a schema at a level. Callers hold Limiter.mu.
func (l *Limiter) tallyLocked(schema, level string) *tally {
	key := [2]string{schema, level}
	t := l.tallies[key]
	if t == nil {
		t = &tally{schema: schema, level: level}
		if l.tallies == nil {
			l.tallies = map[[2]string]*tally{}
		}
		l.tallies[key] = t
	}
	return t
}

// series are what is told, under Kubernetes' names.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#observability
type series struct {
	dispatched, rejected, executing, inQueue, seatsInUse, seatsNominal *prometheus.Desc
}

var told = sync.OnceValue(func() *series {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("apiserver_flowcontrol_"+name, help, labels, nil)
	}
	const level, schema = "priority_level", "flow_schema"
	return &series{
		dispatched:   desc("dispatched_requests_total", "Requests that began to be served.", level, schema),
		rejected:     desc("rejected_requests_total", "Requests that were not served, by reason.", level, schema, "reason"),
		executing:    desc("current_executing_requests", "Requests that are being served, as far as they take seats.", level, schema),
		inQueue:      desc("current_inqueue_requests", "Requests that wait for their turn.", level, schema),
		seatsInUse:   desc("current_executing_seats", "Seats of the requests that are being served.", level),
		seatsNominal: desc("nominal_limit_seats", "Seats that a priority level has for certain.", level),
	}
})

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(ch chan<- *prometheus.Desc) {
	d := told()
	for _, d := range []*prometheus.Desc{d.dispatched, d.rejected, d.executing, d.inQueue, d.seatsInUse, d.seatsNominal} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(ch chan<- prometheus.Metric) {
	d := told()
	say := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	type seats struct {
		name           string
		inUse, nominal int
	}
	l.mu.Lock()
	tallies, levels := make([]*tally, 0, len(l.tallies)), []seats{}
	for _, t := range l.tallies {
		tallies = append(tallies, t)
	}
	for _, lv := range l.plan.Load().levels {
		levels = append(levels, seats{lv.name, lv.inUse, lv.nominal})
	}
	l.mu.Unlock()
	for _, t := range tallies {
		say(d.dispatched, prometheus.CounterValue, t.dispatched.Load(), t.level, t.schema)
		say(d.executing, prometheus.GaugeValue, t.running.Load(), t.level, t.schema)
		say(d.inQueue, prometheus.GaugeValue, t.waiting.Load(), t.level, t.schema)
		for i := range t.rejected {
			if n := t.rejected[i].Load(); n > 0 {
				say(d.rejected, prometheus.CounterValue, n, t.level, t.schema, reasons[i])
			}
		}
	}
	for _, lv := range levels {
		say(d.seatsInUse, prometheus.GaugeValue, int64(lv.inUse), lv.name)
		say(d.seatsNominal, prometheus.GaugeValue, int64(lv.nominal), lv.name)
	}
}
