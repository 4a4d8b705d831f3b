package fields

import (
	"slices"
	"strings"
)

// Table returns the table of docs/reference/dialects.md.
func Table() string {
	out := "| kind | read | an event names it | refused by name | has no effect on the place |\n|---|---|---|---|---|\n"
	kinds := slices.SortedFunc(slices.Values(Kinds), func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	for i := range kinds {
		out += "| " + kinds[i].Name
		for _, fate := range []Fate{Read, Told, Refused, Idle} {
			cell := kinds[i].cell(fate)
			if cell == "" {
				cell = "–"
			}
			out += " | " + cell
		}
		out += " |\n"
	}
	return out
}

// cell lists the fields of a fate, grouped by reason.
func (k *Kind) cell(fate Fate) string {
	var reasons []string
	by := map[string][]string{}
	for i := range k.Fields {
		f := &k.Fields[i]
		if f.Fate != fate {
			continue
		}
		if by[f.Why] == nil {
			reasons = append(reasons, f.Why)
		}
		by[f.Why] = append(by[f.Why], "`"+strings.TrimPrefix(f.Path, "spec.")+"`")
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(by[why], ", ")
		if why != "" {
			reasons[i] += " (" + why + ")"
		}
	}
	return strings.Join(reasons, "; ")
}
