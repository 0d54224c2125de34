package apiserver

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-project/setpoint/internal/apiserver/authz"
)

// metrics of requests, under the names that Kubernetes gives them. A nil
// *metrics counts nothing.
type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  *prometheus.GaugeVec

	series sync.Map // seriesKey -> *series: labels are looked up once
	gauges [2]prometheus.Gauge
}

type seriesKey struct {
	verb, group, version, resource, sub, scope string
	code                                       int
	dry                                        bool
}

type series struct {
	count   prometheus.Counter
	seconds prometheus.Observer
}

func newMetrics(reg *prometheus.Registry) *metrics {
	if reg == nil {
		return nil
	}
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests answered, by verb, resource, scope and code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "How long requests took, by verb, resource and scope.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Requests that are being served.",
		}, []string{"request_kind"}),
	}
	reg.MustRegister(m.total, m.duration, m.running)
	m.gauges[0], m.gauges[1] = m.running.WithLabelValues("readOnly"), m.running.WithLabelValues("mutating")
	return m
}

// metricVerbs are in capitals in the metrics, as Kubernetes has them.
var metricVerbs = map[string]string{
	"get": "GET", "list": "LIST", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH",
	"delete": "DELETE", "deletecollection": "DELETECOLLECTION",
}

// streams last as long as their users like: their durations say nothing.
var streams = map[string]bool{"exec": true, "attach": true, "portforward": true, "log": true, "proxy": true}

func (m *metrics) request(a *authz.Attributes, scope string, code int, dry bool, took time.Duration) {
	if m == nil {
		return
	}
	key := seriesKey{a.Verb, a.Group, a.Version, a.Resource, a.Subresource, scope, code, dry}
	found, ok := m.series.Load(key)
	if !ok {
		verb, dryRun := metricVerbs[a.Verb], ""
		if dry {
			dryRun = "All"
		}
		found = &series{
			count:   m.total.WithLabelValues(verb, dryRun, a.Group, a.Version, a.Resource, a.Subresource, scope, "apiserver", strconv.Itoa(code)),
			seconds: m.duration.WithLabelValues(verb, dryRun, a.Group, a.Version, a.Resource, a.Subresource, scope, "apiserver"),
		}
		if code < 400 || code == 409 || code == 404 && scope != "" {
			m.series.Store(key, found)
		}
	}
	s := found.(*series)
	s.count.Inc()
	if a.Verb != "watch" && !streams[a.Subresource] {
		s.seconds.Observe(took.Seconds())
	}
}

// inflight counts requests that run, watches excepted.
func (m *metrics) inflight(verb string, by float64) {
	if m == nil || verb == "watch" {
		return
	}
	switch verb {
	case "get", "list":
		m.gauges[0].Add(by)
	default:
		m.gauges[1].Add(by)
	}
}
