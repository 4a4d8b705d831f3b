package main

import (
	"fmt"
	"io"
	"time"
)

// journal prints activities and sums up their times.
type journal struct {
	out io.Writer
	// seconds are the times by activity.
	seconds map[string]float64
}

func (j *journal) say(format string, args ...any) {
	fmt.Fprintf(j.out, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// took adds the time of an activity.
func (j *journal) took(what string, since time.Time) {
	if j.seconds == nil {
		j.seconds = map[string]float64{}
	}
	j.seconds[what] += time.Since(since).Seconds()
}
