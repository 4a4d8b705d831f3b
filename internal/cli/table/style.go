package table

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style is the style of a word on a terminal with colours. It has no effect on other outputs.
type Style int

// The styles are named after the meaning of a word.
const (
	Plain Style = iota
	Good
	Doubtful
	Bad
	Aside // less important than other text
)

// sequences are the terminal sequences that switch styles on (ECMA-48, select graphic rendition).
var sequences = [...]string{Plain: "", Good: "\x1b[32m", Doubtful: "\x1b[33m", Bad: "\x1b[31m", Aside: "\x1b[2m"}

const plainAgain = "\x1b[0m"

// Marks are characters of Unicode's private use area. They represent styles in a text until Render
// replaces them, so that the text can be aligned and cleaned first.
const firstMark = '\U000F0000'

func isMark(r rune) bool { return r >= firstMark && r < firstMark+rune(len(sequences)) }

// Mark marks a text with the style; Plain does not change it.
func (s Style) Mark(text string) string {
	if s == Plain {
		return text
	}
	return string(firstMark+rune(s)) + text + string(firstMark)
}

// Render converts marks to colours, or removes them. It replaces all other characters that could
// move the cursor. A style ends at the end of its line.
func Render(text string, colours bool) string {
	var b strings.Builder
	open := false
	for _, r := range text {
		switch {
		case isMark(r) && colours && r != firstMark:
			b.WriteString(sequences[r-firstMark])
			open = true
		case isMark(r) && r != firstMark:
		case (isMark(r) || r == '\n') && open:
			b.WriteString(plainAgain)
			open = false
		}
		if !isMark(r) {
			b.WriteRune(printable(r))
		}
	}
	if open {
		b.WriteString(plainAgain)
	}
	return b.String()
}

// Coloured reports whether w shows colours: w is a terminal that supports them, and NO_COLOR is not
// set (no-color.org).
func Coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Size returns the numbers of lines and columns of the terminal to which w writes. It returns false
// if w is not a terminal.
func Size(w io.Writer) (lines, columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	columns, lines, err := term.GetSize(int(f.Fd()))
	return lines, columns, err == nil && lines > 0 && columns > 0
}
