package obey

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/test/protocol/page"
)

// TestPageCarriesTheTraces holds docs/protocol-runs.md to the shortest runs that the model finds
// without each rule. -rewrite writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	page.Hold(t, "../../../docs/protocol-runs.md", func(yield func(string, fmt.Stringer) bool) {
		for _, o := range rulesOff {
			if !yield(o.id, o.check(t)) {
				return
			}
		}
	})
}
