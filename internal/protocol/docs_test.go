package protocol

import (
	"flag"
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/protocol/page"
)

var update = flag.Bool("update", false, "write the traces into docs/protocol.md")

const document = "../../docs/protocol.md"

// TestPageCarriesTheTraces holds docs/protocol.md to the runs that the model finds: between the
// comment lines "<!-- trace ID -->" and "<!-- end -->" stands the shortest run without the rules of
// ID. -update writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	was := string(data)
	now := was
	for _, o := range append(lawsOff[:len(lawsOff):len(lawsOff)], rulesOff...) {
		r := o.check()
		now, err = page.Splice(now, o.id, r.String())
		if err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now != was {
		t.Errorf("%s does not show what the model finds; run: go test ./internal/protocol -run Page -update", document)
	}
}
