// Package page keeps the runs on docs/protocol-runs.md current: the tests of the models write them.
package page

import (
	"fmt"
	"strings"
)

// Splice returns the page with text as the block of the id, which stands between the lines "<!--
// trace ID -->" and "<!-- end -->".
func Splice(page, id, text string) (string, error) {
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
