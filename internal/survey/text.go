package survey

import (
	"fmt"
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

// ExactBytes prints an amount of memory in the largest binary unit that divides it.
func ExactBytes(n uint64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprint(n)
}

// RoughBytes prints an amount of memory in the largest binary unit that leaves a number of at least
// 1, with one decimal at most.
func RoughBytes(n uint64) string {
	const units = "KMGTPE"
	v, unit := float64(n), -1
	for v >= 1024 && unit+1 < len(units) {
		v /= 1024
		unit++
	}
	if unit < 0 {
		return strconv.FormatUint(n, 10)
	}
	text := strconv.FormatFloat(float64(int64(v*10))/10, 'f', -1, 64)
	return text + units[unit:unit+1] + "i"
}
