package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// print writes the figures as tables, largest first.
func (h *house) print(w io.Writer, top int) {
	fmt.Fprintf(w, "Go outside api/, test/ and tools/: %d lines\n", h.lines)
	fmt.Fprintf(w, "functions: %d; median %d, p90 %d, max %d lines; over 40: %.1f %%\n", len(h.lengths),
		h.quantile(50), h.quantile(90), h.quantile(100), 100*float64(h.over(40))/float64(len(h.lengths)))
	fmt.Fprintf(w, "\nmethods of a type (goal: %d)\n", goalMethods)
	for _, name := range largest(h.methods, func(n int) int { return n }, top) {
		fmt.Fprintf(w, "%6d  %s\n", h.methods[name], name)
	}
	fmt.Fprintf(w, "\nfields of a struct, of them bools (goal: %d, %d)\n", goalFields, goalBools)
	for _, name := range largest(h.structs, func(f fields) int { return f.all }, top) {
		fmt.Fprintf(w, "%6d %3d  %s\n", h.structs[name].all, h.structs[name].bools, name)
	}
	fmt.Fprintf(w, "\narrows between files that run back, of all (goal: %d %%)\n", goalBack)
	for _, name := range largest(h.rooms, func(a arrows) int { return a.back }, top) {
		a := h.rooms[name]
		fmt.Fprintf(w, "%6d of %3d  %3d %%  %s (%d files)\n", a.back, a.all, a.percent(), name, a.files)
	}
}

// quantile is the length that p percent of all functions do not exceed.
func (h *house) quantile(p int) int { return h.lengths[p*(len(h.lengths)-1)/100] }

// over counts the functions of more than n lines.
func (h *house) over(n int) int {
	i, _ := slices.BinarySearch(h.lengths, n+1)
	return len(h.lengths) - i
}

// largest lists the names of the largest few, by size and then by name.
func largest[T any](of map[string]T, size func(T) int, top int) []string {
	names := slices.Sorted(maps.Keys(of))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(size(of[b]), size(of[a])) })
	return names[:min(top, len(names))]
}
