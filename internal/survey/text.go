package survey

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Seconds returns whole seconds. The result is never negative, even if the clocks of API servers
// differ.
func Seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// AgeText formats an age as kubectl does.
func AgeText(seconds int64) string {
	return duration.HumanDuration(time.Duration(seconds) * time.Second)
}
