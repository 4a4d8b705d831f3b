package explore

import (
	"fmt"
	"strings"
	"testing"
)

// spot is a field of a board of four by four. Possible steps are one field right or up, and a jump
// from the first field to any field of the third column.
type spot struct{ x, y int }

type board struct {
	wrong   spot // the field that breaks a promise
	corner  bool // a state without further steps breaks a promise
	jumps   bool
	visited map[spot]int
}

type breach string

func (b *board) Steps(s *spot, emit func(string, *spot)) {
	if b.jumps && *s == (spot{}) {
		for y := range 4 {
			emit("jump", &spot{2, y}) // four steps with the same name
		}
	}
	if s.x < 3 {
		emit("right", &spot{s.x + 1, s.y})
	}
	if s.y < 3 {
		emit("up", &spot{s.x, s.y + 1})
	}
}

func (*board) World(step string) bool { return step == "up" }

func (b *board) See(s *spot) breach {
	b.visited[*s]++
	if *s == b.wrong {
		return "wrong"
	}
	return ""
}

func (b *board) Rest(s *spot) (breach, string) {
	if b.corner && s.y == 2 {
		return "cornered", "it stands still"
	}
	return "", "it stands well"
}

func (*board) Tell(m Moment[spot, string]) string {
	return fmt.Sprintf("%s from %v to %v", m.Step, m.Before, m.After)
}

func TestWalk(t *testing.T) {
	nowhere := spot{9, 9}
	for name, c := range map[string]struct {
		board
		states, depth, quiet int // the counts of a complete search
		want                 string
	}{
		"all":           {board{wrong: nowhere}, 16, 7, 4, "     => \n"},
		"all, by jumps": {board{wrong: nowhere, jumps: true}, 16, 5, 4, "     => \n"},
		"a step":        {board{wrong: spot{1, 1}}, 0, 0, 0, "  1. right from {0 0} to {1 0}\n  2. up from {1 0} to {1 1}\n     => wrong\n"},
		"a jump":        {board{wrong: spot{2, 3}, jumps: true}, 0, 0, 0, "  1. jump from {0 0} to {2 3}\n     => wrong\n"},
		"at rest": {board{wrong: nowhere, corner: true, jumps: true}, 0, 0, 0,
			"  1. jump from {0 0} to {2 2}\n  2. right from {2 2} to {3 2}\n     it stands still\n     => cornered\n"},
		"at once": {board{wrong: spot{}}, 0, 0, 0, "     => wrong\n"},
	} {
		c.visited = map[spot]int{}
		r := Walk(&c.board, spot{})
		if got := r.String(); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
		if r.Complete != (r.Breach == "") {
			t.Errorf("%s: complete is %v", name, r.Complete)
		}
		if r.Complete && (r.States != c.states || r.Depth != c.depth || r.Quiet != c.quiet || len(c.visited) != c.states) {
			t.Errorf("%s: %d states of %d, depth %d, %d at rest; want %d, %d, %d", name, r.States, len(c.visited), r.Depth, r.Quiet, c.states, c.depth, c.quiet)
		}
		for s, n := range c.visited {
			if n != 1 {
				t.Errorf("%s: %v was seen %d times", name, s, n)
			}
		}
	}
}

type letters struct{}

func (letters) Names() []string { return strings.Split("abc", "") }

func TestRules(t *testing.T) {
	all := Rules[letters](0b111)
	if ac := all.Without(0b010); ac.String() != "a+c" || ac.Has(0b011) || !ac.Has(0b101) {
		t.Errorf("all but b: %v", ac)
	}
}
