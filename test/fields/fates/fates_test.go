package fates

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/fields"
	"github.com/berth-dev/berth/test/golden"
)

// TestEveryFieldOfNeighbours tries each field of the table. A read field changes the parsed value,
// a refused field is named by the error, and a field without effect is named by an event.
func TestEveryFieldOfNeighbours(t *testing.T) {
	for i := range fields.Kinds {
		for _, wrong := range Wrong(&fields.Kinds[i]) {
			t.Error(wrong)
		}
	}
}

// TestNoFieldOfNeighboursIsSilent tries each field, at any depth, of the definitions that other
// projects install.
func TestNoFieldOfNeighboursIsSilent(t *testing.T) {
	silent, err := Silent("../../../../shared/neighbours")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the neighbours' definitions are not there: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range silent {
		t.Error(s)
	}
}

// TestReferenceOfDialects compares docs/reference/dialects.md with the tables. With -rewrite it
// writes them.
func TestReferenceOfDialects(t *testing.T) {
	const path = "../../../docs/reference/dialects.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for name, table := range map[string]string{"fields": fields.Table(), "kinds": kindsTable(), "words": wordsTable()} {
		begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->\n"
		before, rest, found := strings.Cut(doc, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s: want %q and %q", path, begin, end)
		}
		doc = before + begin + table + end + after
	}
	golden.File(t, path, doc)
}

// kindsTable returns the table of unserved kinds.
func kindsTable() string {
	out := "| kind | group | why, or who does |\n|---|---|---|\n"
	for _, k := range wire.UnservedKinds() {
		out += "| " + k.Kind + " | " + k.Group + " | " + k.Instead + " |\n"
	}
	return out
}

// wordsTable returns the table of other projects' annotations and labels that have no effect.
func wordsTable() string {
	out := "| dialect | annotations and labels of pods | why they have no effect |\n|---|---|---|\n"
	for _, d := range wire.Dialects() {
		for _, w := range d.Words {
			out += "| " + d.Name + " | `" + strings.Join(w.Keys, "`, `") + "` | " + w.Why + " |\n"
		}
	}
	return out
}
