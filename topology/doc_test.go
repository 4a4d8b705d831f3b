package topology

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedMachines parses every machine string of the documentation.
func TestDocumentedMachines(t *testing.T) {
	text, err := os.ReadFile("../docs/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, there := strings.Cut(string(text), "\n## Machine strings\n")
	if !there {
		t.Fatal("docs/topology.md has no section \"Machine strings\"")
	}
	found := 0
	for line := range strings.Lines(section) {
		example, indented := strings.CutPrefix(line, "    ")
		if !indented || strings.HasPrefix(strings.TrimSpace(example), "dev:") {
			continue
		}
		found++
		m, err := Parse(example)
		if err != nil {
			t.Error(err)
			continue
		}
		roundTrip(t, m)
	}
	if found < 5 {
		t.Errorf("only %d machine strings found", found)
	}
}

// TestDocumentedNumbering checks the documented table of numbering schemes.
func TestDocumentedNumbering(t *testing.T) {
	for scheme, want := range map[string]string{"split": "0,4 1,5", "packed": "0-1 2-3", "interleaved": "0,4 2,6"} {
		m, err := Parse("package:2 core:2 pu:2 number:" + scheme)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Cores[0].CPUs.String() + " " + m.Cores[1].CPUs.String(); got != want {
			t.Errorf("%s: package 0 has cores %s, want %s", scheme, got, want)
		}
	}
}
