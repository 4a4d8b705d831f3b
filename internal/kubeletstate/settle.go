package kubeletstate

import "time"

// A kubelet writes cpu_manager_state twice for each admission (state_checkpoint.go: the shared
// CPUs, then the container's), and the files of its managers one after another. A reading in
// between shows a false contradiction.
const (
	// Settle accepts a contradiction after SameLooks equal looks in a row. It looks at most
	// maxLooks times.
	SameLooks = 3
	maxLooks  = 20
	// LookPause is the pause between two readings.
	LookPause = 100 * time.Millisecond
)

// Settle calls look, which reads files that a kubelet may be writing, until the result is sound or
// stays the same. It returns the last result. An error of look ends Settle at once.
func Settle[T any](look func() (found T, sound bool, err error), same func(a, b T) bool, pause func()) (T, error) {
	last, sound, err := look()
	for looked, row := 1, 1; err == nil && !sound && row < SameLooks && looked < maxLooks; looked++ {
		pause()
		var found T
		found, sound, err = look()
		if row++; !same(found, last) {
			row = 1
		}
		last = found
	}
	return last, err
}
