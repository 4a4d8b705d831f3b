package protocol

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/golden"
	"github.com/berth-dev/berth/internal/protocol/page"
)

const document = "../../docs/protocol-runs.md"

// TestPageCarriesTheTraces holds docs/protocol-runs.md to the runs that the model finds: between
// the comment lines "<!-- trace ID -->" and "<!-- end -->" stands the shortest run without the
// rules of ID. -rewrite writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	now := string(data)
	for _, o := range append(lawsOff[:len(lawsOff):len(lawsOff)], rulesOff...) {
		r := o.check()
		now, err = page.Splice(now, o.id, r.String())
		if err != nil {
			t.Error(err)
		}
	}
	golden.File(t, document, now)
}
