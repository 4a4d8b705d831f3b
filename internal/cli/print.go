package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/machineview"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/topology"
)

// printCleaned prints as output.print does. Tables are cleaned: names of devices and messages come
// from other people, and must not move the cursor.
func printCleaned(cmd *cobra.Command, o output, value any, table func(io.Writer) error) error {
	return o.print(cmd.OutOrStdout(), value, func(w io.Writer) error {
		var b bytes.Buffer
		if err := table(&b); err != nil {
			return err
		}
		_, err := io.WriteString(w, clean(b.String()))
		return err
	})
}

// listing is what programs get: the items under their name, and notes where there are any.
func listing(name string, items any, notes []string) map[string]any {
	out := map[string]any{name: items}
	if len(notes) > 0 {
		out["notes"] = notes
	}
	return out
}

func clean(text string) string {
	lines := strings.Split(strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e) {
			return '?'
		}
		return r
	}, text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

var oneLine = strings.NewReplacer("\t", " ", "\n", " ")

// columns prints rows under a header, aligned.
func columns(w io.Writer, header string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, strings.ReplaceAll(header, " | ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine.Replace(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// printNames prints as kubectl's -o name does, one a line.
func printNames(w io.Writer, kind string, n int, name func(int) string) error {
	for i := range n {
		if _, err := fmt.Fprintf(w, "%s/%s\n", kind, name(i)); err != nil {
			return err
		}
	}
	return nil
}

// indented prints every line of text two spaces further in.
func indented(w io.Writer, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Fprint(w, "  ", line)
	}
}

// writeNotes prints what could not be read or understood.
func writeNotes(cmd *cobra.Command, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", clean(n))
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cpusText prints exclusive CPUs, with strides where the kernel's list would be long.
func cpusText(c *survey.Container) string {
	set, err := topology.ParseCPUList(c.CPUs)
	if c.CPUs == "" || err != nil {
		return c.CPUsText()
	}
	return machineview.CPUList(&set)
}
