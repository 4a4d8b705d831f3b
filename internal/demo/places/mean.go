package places

import (
	"math"
	"time"
)

// Mean is the mean over time of a number that changes.
type Mean struct {
	value int
	at    time.Duration // the time at which the number got its value
	sum   float64       // value times seconds, up to at
}

// Set records that the number changes to this value at the given time.
func (m *Mean) Set(value int, at time.Duration) {
	m.sum += float64(m.value) * (at - m.at).Seconds()
	m.value, m.at = value, at
}

// Over returns the mean from 0 to until, rounded to hundredths.
func (m Mean) Over(until time.Duration) float64 {
	m.Set(0, until)
	return math.Round(100*m.sum/until.Seconds()) / 100
}
