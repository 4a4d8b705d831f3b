//go:build race

package protocol

// raceDetector is set when the race detector makes a search about twenty times as slow. The model
// has one goroutine.
const raceDetector = true
