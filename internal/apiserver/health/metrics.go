package health

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics serves /metrics from what is registered.
func Metrics(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		// One broken collector must not hide all the others.
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      reg,
	})
}
