package protocol

import (
	"slices"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestRuns compares testdata with the shortest runs that the model finds without each rule;
// -rewrite writes them. docs/protocol.md names the files.
func TestRuns(t *testing.T) {
	for _, o := range slices.Concat(lawsOff, rulesOff) {
		golden.File(t, "testdata/"+o.id+".txt", o.check().String())
	}
}
