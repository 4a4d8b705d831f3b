package protocol

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/test/protocol/page"
)

// TestPageCarriesTheTraces holds docs/protocol-runs.md to the runs that the model finds: between
// the comment lines "<!-- trace ID -->" and "<!-- end -->" stands the shortest run without the
// rules of ID. -rewrite writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	page.Hold(t, "../../docs/protocol-runs.md", func(yield func(string, fmt.Stringer) bool) {
		for _, o := range slices.Concat(lawsOff, rulesOff) {
			if !yield(o.id, o.check()) {
				return
			}
		}
	})
}
