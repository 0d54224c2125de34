package metricsserver

import (
	"time"

	"github.com/setpoint-project/setpoint/internal/nodestats"
)

// point is a nodestats.Point in short.
type point struct {
	at, start time.Time
	cpu       float64
}

func (p point) started(at time.Time) point { p.start = at; return p }

func (p point) point() nodestats.Point {
	return nodestats.Point{At: p.at, Start: p.start, CPU: p.cpu}
}
