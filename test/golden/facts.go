package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Tally counts the published test cases of another project: cases with the same result, cases with
// another result and a reason, and cases that are not run here.
type Tally struct{ Same, Differ, None int }

// Cases is the number of all cases.
func (t Tally) Cases() int { return t.Same + t.Differ + t.None }

// Facts reads a file of published facts, one case per line. A line has the given number of columns.
// The last one is the published result. If the result here differs, two more columns have this
// result and the reason. tell returns the result here and the published result, in the same form. A
// line "none N" counts N cases that are not in the file, and has the reason.
func Facts(t *testing.T, path string, columns int, tell func(fields []string) (ours, theirs string)) (n Tally) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if fields[0] == "none" {
			n.None += none(t, path, i+1, fields)
			continue
		}
		if problem := n.fact(fields, columns, tell); problem != "" {
			t.Errorf("%s:%d: %s\n  %s", filepath.ToSlash(path), i+1, problem, line)
		}
	}
	return n
}

func none(t *testing.T, path string, line int, fields []string) int {
	t.Helper()
	if len(fields) > 2 {
		if n, err := strconv.Atoi(fields[1]); err == nil && n > 0 {
			return n
		}
	}
	t.Errorf("%s:%d: want the word none, the number of cases that are missing, and the reason", filepath.ToSlash(path), line)
	return 0
}

// fact counts one case, and returns an error if its result is unexpected.
func (n *Tally) fact(fields []string, columns int, tell func([]string) (ours, theirs string)) string {
	if len(fields) != columns && len(fields) < columns+2 {
		return fmt.Sprintf("%d columns: want %d, or two more: the result here, and the reason why it differs", len(fields), columns)
	}
	ours, want := tell(fields)
	if len(fields) == columns {
		n.Same++
	} else {
		n.Differ++
		if want == fields[columns] {
			return "got the published result: want a line without another result and a reason"
		}
		want = fields[columns]
	}
	if ours != want {
		return fmt.Sprintf("got %s, want %s", ours, want)
	}
	return ""
}

// Row checks the row of a document's table that begins with the name. The row must have the counted
// numbers: cases, same, different, not run. -rewrite writes it.
func (n Tally) Row(t *testing.T, document, name string) {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	now, err := n.row(string(data), name)
	if err != nil {
		t.Fatalf("%s: %v", filepath.ToSlash(document), err)
	}
	if now == string(data) {
		return
	}
	if !*rewrite {
		t.Errorf("%s: the row %q: want %+v; go test -run '^%s$' -rewrite writes it again", filepath.ToSlash(document), name, n, t.Name())
		return
	}
	if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n Tally) row(text, name string) (string, error) {
	before, rest, found := strings.Cut(text, "\n| "+name+" | ")
	if !found {
		return "", fmt.Errorf("no row %q", name)
	}
	line, after, _ := strings.Cut(rest, "\n")
	cells := strings.SplitN(line, " | ", 5)
	if len(cells) != 5 {
		return "", fmt.Errorf("row %q: %d columns: want six", name, len(cells)+1)
	}
	return fmt.Sprintf("%s\n| %s | %d | %d | %d | %d | %s\n%s", before, name, n.Cases(), n.Same, n.Differ, n.None, cells[4], after), nil
}
