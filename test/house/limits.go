package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What the house should reach. Where it has, the goal is the limit; where it has not, limits.txt
// says how far it may be from it, and that may only become less.
const (
	goalMethods = 45
	goalFields  = 18
	goalBools   = 4
	goalBack    = 10 // percent
	goalP90     = 24
	goalMax     = 60
)

// limits are the figures above their goals that are borne, by what they are of: "methods x.T",
// "fields x.T", "bools x.T", "back x" (in arrows), "p90" and "max".
type limits map[string]int

func parseLimits(text string) (limits, error) {
	l := limits{}
	for n, line := range slices.Collect(strings.Lines(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		number, err := strconv.Atoi(line[i+1:])
		if i < 0 || err != nil {
			return nil, fmt.Errorf("line %d: %q: want what is limited, a blank and a number", n+1, line)
		}
		l[line[:i]] = number
	}
	return l, nil
}

// beyond lists all figures of a house that miss their goals.
func beyond(h *house) limits {
	l := limits{}
	put := func(name string, figure, goal int) {
		if figure > goal {
			l[name] = figure
		}
	}
	for name, n := range h.methods {
		put("methods "+name, n, goalMethods)
	}
	for name, f := range h.structs {
		if isSetting(name) {
			continue
		}
		put("fields "+name, f.all, goalFields)
		put("bools "+name, f.bools, goalBools)
	}
	for name, a := range h.rooms {
		put("back "+name, a.back, a.all*goalBack/100)
	}
	put("p90", h.quantile(90), goalP90)
	put("max", h.quantile(100), goalMax)
	return l
}

// isSetting says whether a struct is part of an API, or options, arguments or a configuration. It
// has as many fields as there is to set.
func isSetting(name string) bool {
	_, t, _ := strings.Cut(name, ".")
	for _, end := range []string{"Options", "Args", "Config"} {
		if strings.HasSuffix(t, end) {
			return true
		}
	}
	return strings.HasPrefix(name, "api/") || t == "options"
}

// exceeded says, one sentence each, which figures of a house are above what l bears. In a small
// room two arrows may run back, though they are more than the goal's share.
func (l limits) exceeded(h *house) []string {
	var out []string
	got := beyond(h)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		limit, borne := l[name]
		switch {
		case !borne && strings.HasPrefix(name, "back ") && got[name] <= 2:
		case !borne:
			out = append(out, fmt.Sprintf("%s: %d: above its goal, and it was not before", name, got[name]))
		case got[name] > limit:
			out = append(out, fmt.Sprintf("%s: %d: want at most %d, as before", name, got[name], limit))
		}
	}
	return out
}

// lowered is l with each figure lowered to what is measured. What reached its goal is no longer
// there.
func (l limits) lowered(h *house) limits {
	got, out := beyond(h), limits{}
	for name, limit := range l {
		if figure, still := got[name]; still {
			out[name] = min(limit, figure)
		}
	}
	return out
}

func (l limits) String() string {
	var b strings.Builder
	b.WriteString("# Figures above their goals (limits.go), and how far they may be. `make house-lower` lowers them.\n")
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s %d\n", name, l[name])
	}
	return b.String()
}
