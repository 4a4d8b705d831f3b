//go:build race

package protocol

// raceDetector is true if the race detector runs, which makes a search about twenty times as slow.
// The model has one goroutine.
const raceDetector = true
