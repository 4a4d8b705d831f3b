package survey

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Counted is a number of things, "1 node" or "2 nodes".
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Seconds are whole ones, never negative: clocks of API servers may differ.
func Seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// AgeText is an age as kubectl prints it.
func AgeText(seconds int64) string {
	return duration.HumanDuration(time.Duration(seconds) * time.Second)
}
