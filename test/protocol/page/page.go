// Package page keeps the runs on docs/protocol-runs.md current: the tests of the models write them.
package page

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

// Hold fails the test unless the page, which is at path, carries the text of each id; with
// -rewrite, it writes them.
func Hold(t *testing.T, path string, texts iter.Seq2[string, fmt.Stringer]) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now := string(data)
	for id, text := range texts {
		if now, err = splice(now, id, text.String()); err != nil {
			t.Error(err)
		}
	}
	golden.File(t, path, now)
}

// splice returns the page with text as the block of the id, which stands between the lines "<!--
// trace ID -->" and "<!-- end -->".
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
