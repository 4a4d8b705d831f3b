package protocol

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the traces into docs/protocol.md")

const page = "../../docs/protocol.md"

// TestPageCarriesTheTraces holds docs/protocol.md to the runs that the model finds: between the
// comment lines "<!-- trace ID -->" and "<!-- end -->" stands the shortest run without the rules of
// ID. -update writes them.
func TestPageCarriesTheTraces(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	was := string(data)
	now := was
	for _, o := range append(lawsOff[:len(lawsOff):len(lawsOff)], rulesOff...) {
		r := o.check()
		now, err = splice(now, o.id, r.String())
		if err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now != was {
		t.Errorf("%s does not show what the model finds; run: go test ./internal/protocol -run Page -update", page)
	}
}

// splice replaces the block of the id.
func splice(page, id, text string) (string, error) {
	mark := "<!-- trace " + id + " -->\n"
	before, rest, ok := strings.Cut(page, mark)
	if !ok {
		return page, fmt.Errorf("the page has no line %q", strings.TrimSpace(mark))
	}
	_, after, ok := strings.Cut(rest, "<!-- end -->\n")
	if !ok {
		return page, fmt.Errorf("the block %q has no end", id)
	}
	return before + mark + "```text\n" + text + "```\n<!-- end -->\n" + after, nil
}

func TestSplice(t *testing.T) {
	for _, c := range []struct{ page, want, err string }{
		{"x\n<!-- trace id -->\nold\n<!-- end -->\ny\n", "x\n<!-- trace id -->\n```text\nnew\n```\n<!-- end -->\ny\n", ""},
		{"x\n", "x\n", `the page has no line "<!-- trace id -->"`},
		{"<!-- trace id -->\n", "<!-- trace id -->\n", `the block "id" has no end`},
	} {
		got, err := splice(c.page, "id", "new\n")
		if got != c.want || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("splice(%q) = %q, %v; want %q, %q", c.page, got, err, c.want, c.err)
		}
	}
}
