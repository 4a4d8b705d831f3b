package table

import (
	"strings"
	"testing"
)

func TestGrid(t *testing.T) {
	var b strings.Builder
	var g Grid
	for _, rows := range [][][]string{{{"NAME", "WHAT"}, {"a\tb\n", "x\x1b[2Jy"}, {"longer name", ""}}, {{"ä", "\U000F0003z"}}, {{"the longest name", "end"}}} {
		if err := g.Print(&b, rows); err != nil {
			t.Fatal(err)
		}
	}
	const want = `NAME          WHAT
a b           x?[2Jy
longer name
ä             ?z
the longest name   end
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestRender: colors do not count for the width of a column, and end with their line.
func TestRender(t *testing.T) {
	g := Grid{Style: func(_ int, cell string) Style {
		return map[string]Style{"Ready": Good, "no": Bad}[cell]
	}}
	var b strings.Builder
	if err := g.Print(&b, [][]string{{"Ready", "x"}, {"no", "y"}}); err != nil {
		t.Fatal(err)
	}
	text := b.String() + Doubtful.Mark("open") + string(firstMark+rune(Bad)) + "\nnext\x1b[2J"
	for colours, want := range map[bool]string{
		true:  "\x1b[32mReady\x1b[0m   x\n\x1b[31mno\x1b[0m      y\n\x1b[33mopen\x1b[0m\x1b[31m\x1b[0m\nnext?[2J",
		false: "Ready   x\nno      y\nopen\nnext?[2J",
	} {
		if got := Render(text, colours); got != want {
			t.Errorf("colours %t: got\n%q, want\n%q", colours, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202eb\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if c := Cell(text); strings.ContainsAny(c, "\n\t\r\x1b\x00\u202e") {
			t.Errorf("%q: %q", text, c)
		}
		if c := Render(text, false); strings.ContainsAny(c, "\r\x1b\x00\u202e\U000F0000") {
			t.Errorf("%q rendered plain: %q", text, c)
		}
		c := Render(text, true)
		for _, known := range append(sequences[1:], plainAgain) {
			c = strings.ReplaceAll(c, known, "")
		}
		if strings.ContainsAny(c, "\r\x1b\x00\u202e\U000F0000") {
			t.Errorf("%q rendered in colours has more than these: %q", text, c)
		}
	})
}
