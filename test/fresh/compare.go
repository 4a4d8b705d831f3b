package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Some names differ from run to run: the generated names of pods and ReplicaSets, and the nodes and
// NUMA nodes, because Berth chooses at random among equally good nodes. Everything else is compared
// word by word.
var (
	// suffix ends a name that the API server or a controller generated. It has no vowels and none
	// of the digits 0, 1 and 3 (k8s.io/apimachinery/pkg/util/rand).
	suffix = regexp.MustCompile(`(\b[a-z][a-z0-9]*(?:-[a-z]+)*?)(?:-[bcdfghjklmnpqrstvwxz2456789]{5,10})+\b`)
	// report matches the number of a node's report.
	report = regexp.MustCompile(`\breport [0-9]+\b`)
	// header is the first line of a table, cell a title in it.
	header = regexp.MustCompile(`^[A-Z][A-Z/ ]+$`)
	cell   = regexp.MustCompile(`\S+(?: \S+)*`)
)

// places are the columns of tables with a pod's present or possible place.
var places = []string{"NODE", "NUMA", "CPUS", "FROM", "TO"}

// Differ returns the first line in which an output differs from a document; "" if they agree. A
// line `...` matches any number of lines. The number of blanks and the order of nodes do not count.
func Differ(want, got, nodes []string) string {
	w, g := normal(want, nodes), normal(got, nodes)
	reached := 0
	if matches(w, g, &reached) {
		return ""
	}
	if reached == len(w) {
		return "the output goes on after what the document shows"
	}
	return fmt.Sprintf("the document has %q: want the output to have this line at the same place", w[reached])
}

// matches reports whether the output agrees with the document; reached becomes the largest number
// of matching lines.
func matches(want, got []string, reached *int) bool { return matchFrom(want, got, 0, reached) }

func matchFrom(want, got []string, at int, reached *int) bool {
	*reached = max(*reached, at)
	switch {
	case at == len(want):
		return len(got) == 0
	case want[at] != "...":
		return len(got) > 0 && got[0] == want[at] && matchFrom(want, got[1:], at+1, reached)
	}
	for skip := range len(got) + 1 {
		if matchFrom(want, got[skip:], at+1, reached) {
			return true
		}
	}
	return false
}

// normal returns lines without parts that differ from run to run, and without empty lines.
func normal(lines, nodes []string) (out []string) {
	var columns []column
	for _, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "":
			columns = nil
			continue
		case header.MatchString(strings.TrimSpace(line)):
			columns = columnsOf(line)
		case columns != nil && crosses(line, columns):
			columns = nil // a sentence after the table
		case columns != nil:
			line = withoutPlaces(line, columns)
		}
		line = suffix.ReplaceAllString(line, "$1-*")
		line = report.ReplaceAllString(line, "report N")
		words := strings.Fields(line)
		for i, word := range words {
			if slices.Contains(nodes, strings.Trim(word, "(),.:")) {
				words[i] = "NODE"
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// column is a column of a table: its title, start and end. The last column ends with the line.
type column struct {
	title    string
	from, to int
}

func columnsOf(line string) (out []column) {
	titles := cell.FindAllStringIndex(line, -1)
	for i, at := range titles {
		c := column{title: line[at[0]:at[1]], from: at[0], to: -1}
		if i+1 < len(titles) {
			c.to = titles[i+1][0]
		}
		out = append(out, c)
	}
	return out
}

// crosses reports whether a word of a line crosses the border of two columns.
func crosses(line string, columns []column) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.from > 0 && c.from < len(line) && line[c.from-1] != ' ' })
}

// withoutPlaces replaces every place in a line of a table with *. It keeps -, which means none.
func withoutPlaces(line string, columns []column) string {
	var out []string
	for _, c := range columns {
		if c.from >= len(line) {
			break
		}
		text := line[c.from:]
		if c.to >= 0 && c.to <= len(line) {
			text = line[c.from:c.to]
		}
		text = strings.TrimSpace(text)
		if slices.Contains(places, c.title) && text != "-" && text != "" {
			text = "*"
		}
		out = append(out, text)
	}
	return strings.Join(out, "  ")
}
