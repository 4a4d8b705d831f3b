package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
)

// printCleaned prints like output.print. It removes control characters from the text for users,
// because device names and messages from other programs must not move the cursor. On a terminal, it
// shows styles.
func printCleaned(cmd *cobra.Command, o output, value any, text func(io.Writer) error) error {
	return o.print(cmd.OutOrStdout(), value, func(w io.Writer) error {
		var b bytes.Buffer
		if err := text(&b); err != nil {
			return err
		}
		_, err := io.WriteString(w, table.Render(b.String(), table.Coloured(w)))
		return err
	})
}

// answerNo returns err if the verb's answer is negative, and otherwise nil.
func answerNo(no bool, err error) error {
	if no {
		return err
	}
	return nil
}

// listing returns the output for programs: an object with the items under the given name, and with
// the notes if there are any.
func listing(name string, items any, notes []string) map[string]any {
	out := map[string]any{name: items}
	if len(notes) > 0 {
		out["notes"] = notes
	}
	return out
}

// separator separates the names of columns in a header.
const separator = " | "

// gridOf returns a grid whose columns have the names in the header.
func gridOf(header string) table.Grid {
	return table.Grid{Style: styleOf(strings.Split(header, separator))}
}

// columns prints rows under a header, aligned.
func columns(w io.Writer, header string, rows [][]string) error {
	grid := gridOf(header)
	return grid.Print(w, slices.Insert(rows, 0, strings.Split(header, separator)))
}

// section prints a title, and rows in columns below it. The title "" is printed as an empty line.
// If there are no rows, section prints nothing.
func section(w io.Writer, title, header string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w, title)
	return columns(w, header, rows)
}

// styles maps the name of a column to the styles of its words. The word "" stands for all other
// words; without it, they are plain.
var styles = map[string]map[string]table.Style{
	"STATUS": {statusReady: table.Good, statusGone: table.Aside, "": table.Doubtful,
		"True": table.Plain, "False": table.Plain, "Unknown": table.Plain}, // the states of conditions
	"GUARANTEE": {"none": table.Bad},
	"STATE": {survey.StateAdmitted: table.Good, survey.StateRefused: table.Bad, survey.StatePending: table.Doubtful,
		survey.StateGone: table.Aside, survey.StateEnded: table.Aside, query.StateWouldFit: table.Good},
	"GANG STATE": gangWords(),
	"PROMISE":    promiseStyles,
	"ALIGNED":    {"yes": table.Good, "-": table.Plain, "": table.Doubtful},
	"SOUND":      {"yes": table.Good, "NO": table.Bad},
	"NUMA":       {refusedWord: table.Bad},
}

var promiseStyles = map[string]table.Style{survey.PromiseKept: table.Good, survey.PromiseVerdict: table.Good,
	survey.PromiseBroken: table.Bad, survey.PromiseRefused: table.Bad}

// styleOf returns a function that returns the style of a cell. The argument names has the names of
// the columns.
func styleOf(names []string) func(int, string) table.Style {
	return func(column int, cell string) table.Style {
		words := styles[names[column]]
		if cell == names[column] {
			return table.Plain // the header has no style
		}
		if style, ok := words[strings.TrimSuffix(cell, changedMark)]; ok {
			return style
		}
		return words[""]
	}
}

// printNames prints one name per line, as kubectl's -o name does.
func printNames(w io.Writer, kind string, n int, name func(int) string) error {
	for i := range n {
		if _, err := fmt.Fprintf(w, "%s/%s\n", kind, name(i)); err != nil {
			return err
		}
	}
	return nil
}

// indented prints every line of text with an indentation of two spaces.
func indented(w io.Writer, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Fprint(w, "  ", line)
	}
}

// writeNotes prints notes to stderr, for example about input that could not be read.
func writeNotes(cmd *cobra.Command, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", table.Text(n))
	}
}

func dash(s string) string { return cmp.Or(s, "-") }

// numaText returns "NUMA node 0" or "NUMA nodes 0-1" for a list of NUMA nodes.
func numaText(list string) string {
	if list == "" || strings.ContainsAny(list, ",-") {
		return "NUMA nodes " + dash(list)
	}
	return "NUMA node " + list
}

// cpusText returns the exclusive CPUs as text. If the kernel's list would be long, the text uses
// strides.
func cpusText(c *survey.Container) string {
	switch {
	case c.UnknownCPUs > 0:
		return fmt.Sprintf("%d %s", c.UnknownCPUs, survey.CPUsUnknown)
	case c.CPUs == "":
		return "shared"
	}
	return stridesOf(c.CPUs)
}
