package local

// WithLog bounds the log of recent events, so that tests read the past from
// disk without writing tens of thousands of events first.
func WithLog(o Options, events int64, bytes int) Options {
	o.logs = limits{events: events, bytes: bytes}
	return o
}
