//go:build race

package placement_test

const raceDetector = true
