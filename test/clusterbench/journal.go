package main

import (
	"fmt"
	"io"
	"time"
)

// journal is what is done, and notes where the time goes.
type journal struct {
	out io.Writer
	// seconds are by what was done.
	seconds map[string]float64
}

func (j *journal) say(format string, args ...any) {
	fmt.Fprintf(j.out, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// took notes what time was spent on.
func (j *journal) took(what string, since time.Time) {
	if j.seconds == nil {
		j.seconds = map[string]float64{}
	}
	j.seconds[what] += time.Since(since).Seconds()
}
