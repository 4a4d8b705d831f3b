package obey

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/golden"
	"github.com/berth-dev/berth/internal/protocol/page"
)

const document = "../../../docs/protocol-runs.md"

// TestPageCarriesTheTraces holds docs/protocol-runs.md to the shortest runs that the model finds
// without each rule. -rewrite writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	now := string(data)
	for _, o := range rulesOff {
		if now, err = page.Splice(now, o.id, o.check(t).String()); err != nil {
			t.Error(err)
		}
	}
	golden.File(t, document, now)
}
