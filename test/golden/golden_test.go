package golden

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// adder is a stage with a command that adds numbers.
type adder struct{ sum []string }

func (a *adder) Do(word string, args []string) error {
	if word != "add" {
		return errors.New("no such word")
	}
	a.sum = append(a.sum, args...)
	return nil
}

func (a *adder) Tell() string {
	defer func() { a.sum = nil }()
	return fmt.Sprintf("%d numbers\n", len(a.sum))
}

func TestPlay(t *testing.T) {
	for what, c := range map[string]struct{ story, want, err string }{
		"as it was":           {"# two\nadd 1\nadd 2\n----\n2 numbers\n", "# two\nadd 1\nadd 2\n----\n2 numbers\n", ""},
		"something else now":  {"add 1\n----\n7 numbers\nof all kinds\n\nadd 1 2\n----\n", "add 1\n----\n1 numbers\n\nadd 1 2\n----\n2 numbers\n", ""},
		"an unknown word":     {"take 1\n----\n", "", "take 1: no such word"},
		"nobody asks":         {"add 1\n----\n1 numbers\n\nadd 2\n", "", "add 2: no line of dashes follows"},
		"blanks are stripped": {"add 1  \n----\n1 numbers\n", "add 1\n----\n1 numbers\n", ""},
	} {
		got, err := play(&adder{}, c.story)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || got != c.want {
			t.Errorf("%s: got %q, %v; want %q, %q", what, got, err, c.want, c.err)
		}
	}
}
