package survey

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Seconds returns whole seconds, never negative, because clocks of API servers may differ.
func Seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// AgeText is an age as kubectl prints it.
func AgeText(seconds int64) string {
	return duration.HumanDuration(time.Duration(seconds) * time.Second)
}
