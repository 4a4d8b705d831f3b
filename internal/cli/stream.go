package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// watchFlags are kubectl's.
type watchFlags struct{ watch, only bool }

func (f *watchFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "after listing, go on and print what changes, until interrupted")
	cmd.Flags().BoolVar(&f.only, "watch-only", false, "print what changes, without listing first")
}

func (f *watchFlags) on() bool { return f.watch || f.only }

// following is what is watched: the one that is named, or all; quietly, without printing first what
// there is.
type following struct {
	only    string
	quietly bool
}

// stream prints items, and those again that have changed. Every document of JSON or YAML, and every
// filling of a template, is a list as without a watch, so that the same programs read it.
type stream[T any] struct {
	cmd *cobra.Command
	o   output
	// list is the name of the list, kind that of an item for -o name.
	list, kind string
	columns    string
	name       func(*T) string
	rows       func(*T) [][]string
	// steady is an item without what changes by itself; gone is one that is no more.
	steady func(T) T
	gone   func(T) T

	shown  map[string]T
	widths []int
}

// offer takes items in by their keys, nil for one that is gone, and prints those that are different
// from what was shown last. Quietly, it only takes note.
func (s *stream[T]) offer(keys []string, items map[string]*T, quietly bool) error {
	if s.shown == nil {
		s.shown = map[string]T{}
	}
	var news []T
	for _, key := range keys {
		before, known := s.shown[key]
		switch now := items[key]; {
		case now == nil && known:
			delete(s.shown, key)
			news = append(news, s.gone(before))
		case now != nil && (!known || !reflect.DeepEqual(s.steady(before), s.steady(*now))):
			s.shown[key] = *now
			news = append(news, *now)
		}
	}
	if quietly || len(news) == 0 {
		return nil
	}
	return s.print(news)
}

// offerAll is offer for everything that there is.
func (s *stream[T]) offerAll(all []T, key func(*T) string, quietly bool) error {
	keys, items := make([]string, len(all)), map[string]*T{}
	for i := range all {
		keys[i] = key(&all[i])
		items[keys[i]] = &all[i]
	}
	return s.offer(keys, items, quietly)
}

// show is offer for what a watch finds.
func (s *stream[T]) show(keys []string, items map[string]*T) error {
	return s.offer(keys, items, false)
}

// teller says on stderr what is wrong with a watch.
func teller(cmd *cobra.Command) func(string) {
	return func(text string) { writeNotes(cmd, []string{text}) }
}

func (s *stream[T]) print(items []T) error {
	out := s.cmd.OutOrStdout()
	if s.o.format == "yaml" {
		if _, err := fmt.Fprintln(out, "---"); err != nil {
			return err
		}
	}
	return printCleaned(s.cmd, s.o, listing(s.list, items, nil), func(w io.Writer) error {
		if s.o.is(formatName) {
			return printNames(w, s.kind, len(items), func(i int) string { return s.name(&items[i]) })
		}
		var rows [][]string
		for i := range items {
			rows = append(rows, s.rows(&items[i])...)
		}
		return s.table(w, rows)
	})
}

// table prints rows under those that stand there already: a column never gets narrower, and the
// header is printed once.
func (s *stream[T]) table(w io.Writer, rows [][]string) error {
	if s.widths == nil {
		rows = slices.Insert(rows, 0, strings.Split(s.columns, " | "))
		s.widths = make([]int, len(rows[0]))
	}
	for _, row := range rows {
		for i, cell := range row {
			s.widths[i] = max(s.widths[i], len([]rune(cell)))
		}
	}
	const gap = 3
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(oneLine.Replace(cell) + strings.Repeat(" ", s.widths[i]-len([]rune(cell))+gap))
		}
		if _, err := fmt.Fprintln(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}
