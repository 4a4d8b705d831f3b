package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
)

// TestKoordinatorMergeTables merges the hints of Koordinator's own tests. If Berth's result
// differs, the table has Berth's result and the reason.
func TestKoordinatorMergeTables(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "koordinator-merge.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var tally golden.Tally
	for n, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "none ") {
			cases := 0
			if _, err := fmt.Sscanf(line, "none %d", &cases); err != nil {
				t.Errorf("line %d: %v", n+1, err)
			}
			tally.None += cases
			continue
		}
		policy, hints := strings.TrimSpace(line[:17]), strings.TrimSpace(line[17:44])
		rest := strings.Fields(line[44:])
		want := rest[0]
		if tally.Same++; len(rest) > 1 {
			want = rest[1]
			tally.Same--
			tally.Differ++
			if len(rest) == 2 || rest[0] == rest[1] {
				t.Errorf("line %d: want a reason for a difference", n+1)
			}
		}
		policies := []string{policy}
		if policy == "all" {
			policies = []string{"best-effort", "restricted", "single-numa-node"}
		}
		for _, policy := range policies {
			if got := mergeText(t, policy, hints); got != want {
				t.Errorf("line %d: %s of %s: %s, want %s", n+1, policy, hints, got, want)
			}
		}
	}
	tally.Row(t, filepath.Join("..", "docs", "reference", "koordinator.md"), "merging and filtering hints")
}

// mergeText merges hints in the notation of the table, and returns the result in this notation.
func mergeText(t *testing.T, policy, text string) string {
	t.Helper()
	nodes := topology.NewNUMASet(0, 1, 2, 3)
	if policy == "single-numa-node" {
		nodes = topology.NewNUMASet(0, 1)
	}
	space, err := hint.NewSpace(nodes)
	if err != nil {
		t.Fatal(err)
	}
	var lists []hint.List
	for _, one := range strings.Split(text, ";") {
		if one != "none" {
			lists = append(lists, wordsOf(space, strings.Fields(one)))
		}
	}
	var g merger
	g.init(space)
	got, ok := g.preferred(lists, mergeRules{single: policy == "single-numa-node"})
	switch {
	case !ok && policy == "single-numa-node":
		return "no"
	case !ok:
		got = g.unpreferred(lists, mergeRules{})
	}
	out := "*"
	if got.Mask != space.All() {
		out = ""
		for i := range got.Mask.All() {
			out += string(rune('0' + i))
		}
	}
	if got.Preferred {
		out += "!"
	}
	return out
}

// wordsOf parses the hints of one resource.
func wordsOf(space *hint.Space, words []string) hint.List {
	l := space.NewList()
	l.Reset(hint.Masks)
	for _, w := range words {
		name, preferred := strings.CutSuffix(w, "!")
		switch {
		case w == "-", name == "*" && preferred:
			l.Reset(hint.NoPreference)
			return l
		case w == "x", name == "*":
			l.Reset(hint.Impossible)
			return l
		}
		var m hint.Mask
		for _, digit := range name {
			m |= 1 << (digit - '0')
		}
		if l.Offered.Add(m); preferred {
			l.Preferred.Add(m)
		}
	}
	return l
}
