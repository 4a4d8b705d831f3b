// Package table prints rows in columns, safe to show on a terminal.
package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const gap = 3 // blanks between columns

// Write prints rows, the first of them a header, in aligned columns. Cells come from other people:
// what would move the cursor, or break the row, is replaced.
func Write(w io.Writer, rows [][]string) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = Cell(row[i])
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Cell makes one line of a text that a terminal shows as it is: blanks for breaks, question marks
// for control characters and for those that turn the direction of writing.
func Cell(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return '?'
		}
		return r
	}, text)
}
