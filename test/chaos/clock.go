package main

import (
	"time"

	"github.com/berth-dev/berth/test/wrongclock"
)

// jump sets the clock of a process forward, or with a negative duration back. One that is down has
// it wrong when it is up.
func (c *cluster) jump(p *process, by time.Duration) error {
	p.wrong += by
	return wrongclock.Set(wrongclock.File(c.dir, p.name), p.wrong)
}
