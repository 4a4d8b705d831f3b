package kubeletstate

import "time"

// For each admission, a kubelet writes cpu_manager_state twice (state_checkpoint.go: first the
// shared CPUs, then the container's), and it writes the files of its managers one after another.
// Between two writes, the files can contradict each other for a moment.
const (
	// After SameLooks identical readings in a row, Settle returns the result even if it is not
	// sound. It also returns the result after maxLooks readings.
	SameLooks = 3
	maxLooks  = 20
	// LookPause is the pause between two readings.
	LookPause = 100 * time.Millisecond
)

// Settle calls the function look, which reads files that a kubelet may be writing, until look
// reports a sound result (one without contradictions) or the results stop changing, at most
// maxLooks times. It returns the last result. If look returns an error, Settle returns at once.
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
