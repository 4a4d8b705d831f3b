package table

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	err := Write(&b, [][]string{{"NAME", "WHAT"}, {"a\tb\n", "x\x1b[2Jy"}, {"longer name", ""}})
	if want := "NAME          WHAT\na b           x?[2Jy\nlonger name\n"; err != nil || b.String() != want {
		t.Errorf("got %q, error %v, want %q", b.String(), err, want)
	}
}

func FuzzCell(f *testing.F) {
	f.Add("a\u202eb\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if c := Cell(text); strings.ContainsAny(c, "\n\t\r\x1b\x00\u202e") {
			t.Errorf("%q: %q", text, c)
		}
	})
}
