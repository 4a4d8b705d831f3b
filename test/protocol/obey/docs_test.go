package obey

import (
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// TestRuns compares testdata with the shortest runs that the model finds without each rule;
// -rewrite writes them. docs/protocol.md names the files.
func TestRuns(t *testing.T) {
	for _, o := range rulesOff {
		golden.File(t, "testdata/"+o.id+".txt", o.check(t).String())
	}
}
