package page

import "testing"

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
