package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFacts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "facts.txt")
	text := "# sums\n1 2 3\n1 1 3 2 they are wrong\n\nnone 4 products\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"12": "3", "11": "2"}
	got := Facts(t, path, 3, func(f []string) (ours, theirs string) { return sums[f[0]+f[1]], f[2] })
	if want := (Tally{1, 1, 4}); got != want || got.Cases() != 6 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFactsThatAreNone(t *testing.T) {
	for line, want := range map[string]string{
		"1 2":       "2 columns",
		"1 2 3 3":   "4 columns",
		"1 2 4":     "got 3, want 4",
		"1 2 4 5 x": "got 3, want 5",
		"1 2 3 3 x": "got the published result",
	} {
		var n Tally
		if got := n.fact(strings.Fields(line), 3, func(f []string) (string, string) { return "3", f[2] }); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestRow(t *testing.T) {
	text := "| a | n |\n| sums | 1 | 2 | 3 | 4 | here |\nend\n"
	if got, err := (Tally{5, 6, 7}).row(text, "sums"); err != nil || got != "| a | n |\n| sums | 18 | 5 | 6 | 7 | here |\nend\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"products", "a"} {
		if _, err := (Tally{}).row("\n"+text, name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
