package local

// WithLog bounds the log of recent events, so that tests read the past from
// disk without writing tens of thousands of events first.
func WithLog(o Options, events int64, bytes int) Options {
	o.logs = limits{events: events, bytes: bytes}
	return o
}

// Churn makes Pebble flush and compact all the time.
func Churn(o Options) Options {
	o.memTable = 64 << 10
	return o
}
