package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// anchors are the figures of projects whose code is easy to read. Functions and fields are measured
// by the same rules. For methods, only the four types with the most own methods are listed.
var anchors = []struct {
	name, lengths, methods, fields string
}{
	{"etcd raft 3.6", "7 / 32 / 398 / 6.8 %", "43 40 35 22", "32 19 11"},
	{"hashicorp raft 1.8", "9 / 39 / 295 / 10.0 %", "99 25 22 16", "44 21 20"},
	{"cilium ebpf 0.22", "9 / 41 / 809 / 10.1 %", "50 26 22 18", "22 20 18"},
	{"controller-runtime 0.24", "7 / 34 / 149 / 7.0 %", "26 24 23 22", "34 34 21"},
	{"bbolt 1.4", "8 / 37 / 145 / 7.2 %", "39 37 33 26", "36 16 13"},
	{"Kueue", "7 / 28 / 671 / 5.2 %", "77 69 62 55", "34 26 19"},
	{"KAI Scheduler", "10 / 34 / 233 / 6.3 %", "82 55 35 32", "34 34 24"},
}

// print writes the figures as tables, largest first.
func (h *house) print(w io.Writer, top int) {
	fmt.Fprintf(w, "Go outside api/, test/, tools/ and lab/: %d lines, %d functions\n\n", h.lines, len(h.lengths))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tfunctions: median / p90 / max lines / over 40\tlargest types, own methods\tlargest structs, fields")
	fmt.Fprintf(t, "this project\t%d / %d / %d / %.1f %%\t%s\t%s\n", h.quantile(50), h.quantile(90), h.quantile(100),
		100*float64(h.over(40))/float64(len(h.lengths)), figures(h.methods, methods.ofOwn, 4), figures(h.structs, fields.ofAll, 3))
	for _, a := range anchors {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", a.name, a.lengths, a.methods, a.fields)
	}
	t.Flush()
	fmt.Fprintf(w, "\nmethods reachable through a type, of them its own\n")
	for _, name := range largest(h.methods, methods.ofReachable, top) {
		fmt.Fprintf(w, "%6d %3d  %s\n", h.methods[name].reachable, h.methods[name].own, name)
	}
	fmt.Fprintf(w, "\nfields of a struct with embedded ones, of them bools\n")
	for _, name := range largest(h.structs, fields.ofAll, top) {
		fmt.Fprintf(w, "%6d %3d  %s\n", h.structs[name].all, h.structs[name].bools, name)
	}
	fmt.Fprintf(w, "\nbackward uses between files, of all\n")
	for _, name := range largest(h.rooms, arrows.ofBack, top) {
		a := h.rooms[name]
		fmt.Fprintf(w, "%6d of %3d  %3d %%  %s (%d files)\n", a.back, a.all, a.percent(), name, a.files)
	}
}

func (m methods) ofOwn() int       { return m.own }
func (m methods) ofReachable() int { return m.reachable }
func (f fields) ofAll() int        { return f.all }
func (a arrows) ofBack() int       { return a.back }

// quantile returns the length that p percent of all functions do not exceed.
func (h *house) quantile(p int) int { return h.lengths[p*(len(h.lengths)-1)/100] }

// over counts the functions of more than n lines.
func (h *house) over(n int) int {
	i, _ := slices.BinarySearch(h.lengths, n+1)
	return len(h.lengths) - i
}

// figures prints the largest few sizes.
func figures[T any](of map[string]T, size func(T) int, top int) (out string) {
	for _, name := range largest(of, size, top) {
		out += fmt.Sprintf("%d ", size(of[name]))
	}
	return out
}

// largest lists the names of the largest few, by size and then by name.
func largest[T any](of map[string]T, size func(T) int, top int) []string {
	names := slices.Sorted(maps.Keys(of))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(size(of[b]), size(of[a])) })
	return names[:min(top, len(names))]
}
