// Package table prints rows in aligned columns. It removes characters that could move a terminal's
// cursor, and uses colours on terminals.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const gap = 3 // blanks between columns

// Grid prints rows in aligned columns. Later rows are aligned with earlier rows: a column never
// gets narrower.
type Grid struct {
	// Style returns the style of a cell; nil means that all cells are plain.
	Style func(column int, cell string) Style

	widths []int
}

// Print prints rows. Cells may be untrusted text: Print replaces characters that would move the
// cursor or break the row.
func (g *Grid) Print(w io.Writer, rows [][]string) error {
	clean := make([][]string, len(rows))
	for i, row := range rows {
		clean[i] = make([]string, len(row))
		for j, cell := range row {
			clean[i][j] = Cell(cell)
			if j == len(g.widths) {
				g.widths = append(g.widths, 0)
			}
			g.widths[j] = max(g.widths[j], utf8.RuneCountInString(clean[i][j]))
		}
	}
	for _, row := range clean {
		if _, err := fmt.Fprintln(w, g.line(row)); err != nil {
			return err
		}
	}
	return nil
}

// line aligns a row, without trailing blanks.
func (g *Grid) line(row []string) string {
	var b strings.Builder
	pad := 0
	for i, cell := range row {
		if cell != "" {
			b.WriteString(strings.Repeat(" ", pad))
			pad = 0
			b.WriteString(g.styled(i, cell))
		}
		pad += g.widths[i] - utf8.RuneCountInString(cell) + gap
	}
	return b.String()
}

func (g *Grid) styled(column int, cell string) string {
	if g.Style == nil {
		return cell
	}
	return g.Style(column, cell).Mark(cell)
}

// Cell turns a text into one safe line: it replaces line breaks and tabs with blanks, and applies
// Text.
func Cell(text string) string {
	return Text(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

// Text replaces three kinds of characters with question marks: control characters except line ends,
// characters that change the writing direction, and style marks.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return '?'
		}
		return printable(r)
	}, text)
}

func printable(r rune) rune {
	if r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
		return '?'
	}
	return r
}
