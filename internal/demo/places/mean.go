package places

import (
	"math"
	"time"
)

// Mean is that of a number that changes now and then.
type Mean struct {
	value int
	at    time.Duration // when it began
	sum   float64       // value times seconds, until then
}

// Set says that the number is another one from then on.
func (m *Mean) Set(value int, at time.Duration) {
	m.sum += float64(m.value) * (at - m.at).Seconds()
	m.value, m.at = value, at
}

// Over is the mean from 0 until then, to the hundredth.
func (m Mean) Over(until time.Duration) float64 {
	m.Set(0, until)
	return math.Round(100*m.sum/until.Seconds()) / 100
}
