package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/query"
)

// compared prints how the pods fit before and after a change. It returns an error if, for some pod,
// no replica fits after the change.
func compared(cmd *cobra.Command, out *output, c *survey.Cluster, wanted []query.Wanted, o query.FitOptions, notes []string) error {
	got, err := query.Compare(cmd.Context(), c, wanted, o)
	if err != nil {
		return err
	}
	got.Notes = slices.Concat(notes, got.Notes)
	writeNotes(cmd, got.Notes)
	none := slices.ContainsFunc(got.Pods, func(p query.ComparedPods) bool { return p.After.Placed == 0 && p.Replicas > 0 })
	asTable := func(w io.Writer) error { return comparedTable(w, got) }
	return cmp.Or(printCleaned(cmd, *out, got, asTable), answerNo(none, errNoCopy))
}

func comparedTable(w io.Writer, c *query.Comparison) error {
	var rows [][]string
	for _, r := range c.Rows {
		rows = append(rows, []string{r.About, r.What, r.Before, r.After, r.Change})
	}
	before := "AS THEY ARE"
	if c.Empty {
		before = "EMPTY"
	}
	if err := columns(w, "OF | WHAT | "+before+" | AS SET | CHANGE", rows); err != nil {
		return err
	}
	for _, why := range c.Never {
		fmt.Fprintf(w, "\n%s\n", why)
	}
	return nil
}
