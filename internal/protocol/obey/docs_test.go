package obey

import (
	"flag"
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/protocol/page"
)

var update = flag.Bool("update", false, "write the traces into docs/protocol.md")

const document = "../../../docs/protocol.md"

// TestPageCarriesTheTraces holds docs/protocol.md to the shortest runs that the model finds without
// each rule. -update writes them.
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
	if *update {
		if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now != string(data) {
		t.Errorf("%s does not show what the model finds; run: go test ./internal/protocol/obey -run Page -update", document)
	}
}
