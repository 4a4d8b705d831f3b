package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/table"
)

// watchFlags are the flags --watch and --watch-only, as in kubectl.
type watchFlags struct{ watch, only bool }

func (f *watchFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "after the list, print every change, until interrupted")
	cmd.Flags().BoolVar(&f.only, "watch-only", false, "print every change, without the list")
}

func (f *watchFlags) on() bool { return f.watch || f.only }

// following selects the watched items: one item by name, or all. quietly means that the initial
// items are not printed.
type following struct {
	only    string
	quietly bool
}

// stream prints items, and prints an item again after each change. Each JSON or YAML document, and
// each input of a template, is a list as in the output without a watch, so that the same programs
// can read both outputs.
type stream[T any] struct {
	cmd *cobra.Command
	o   output
	// list is the name of the list. The field kind is the kind of an item for -o name.
	list, kind string
	columns    string
	name       func(*T) string
	rows       func(*T) [][]string
	// steady returns an item without the fields that change without an event, such as ages. The
	// field gone returns an item marked as deleted.
	steady func(T) T
	gone   func(T) T

	// now returns the time of day; nil means time.Now.
	now func() time.Time

	shown map[string]T
	grid  *table.Grid
	// rowsShown has the rows of each item in the table, without marks.
	rowsShown map[string][][]string
}

// news is a new, changed or deleted item. For a deleted item, item is its last state, marked as
// deleted.
type news[T any] struct {
	key  string
	item T
	gone bool
}

// offer prints those items with the given keys that are new or have changed. A key without an item
// means that the item was deleted. If quietly is true, offer only records the items.
func (s *stream[T]) offer(keys []string, items map[string]*T, quietly bool) error {
	found := s.changed(keys, items)
	if quietly {
		s.tableRows(found) // later rows are compared with these
		return nil
	}
	if len(found) == 0 {
		return nil
	}
	return s.print(found)
}

// changed returns the items that differ from the recorded items, and records them.
func (s *stream[T]) changed(keys []string, items map[string]*T) (found []news[T]) {
	if s.shown == nil {
		s.shown = map[string]T{}
	}
	for _, key := range keys {
		before, known := s.shown[key]
		switch now := items[key]; {
		case now == nil && known:
			delete(s.shown, key)
			found = append(found, news[T]{key, s.gone(before), true})
		case now != nil && (!known || !reflect.DeepEqual(s.steady(before), s.steady(*now))):
			s.shown[key] = *now
			found = append(found, news[T]{key, *now, false})
		}
	}
	return found
}

// offerAll calls offer for all items; the function key returns the key of an item.
func (s *stream[T]) offerAll(all []T, key func(*T) string, quietly bool) error {
	keys, items := make([]string, len(all)), map[string]*T{}
	for i := range all {
		keys[i] = key(&all[i])
		items[keys[i]] = &all[i]
	}
	return s.offer(keys, items, quietly)
}

// show calls offer for the results of a watch.
func (s *stream[T]) show(keys []string, items map[string]*T) error {
	return s.offer(keys, items, false)
}

// teller returns a function that reports problems of a watch on stderr.
func teller(cmd *cobra.Command) func(string) {
	return func(text string) { writeNotes(cmd, []string{text}) }
}

func (s *stream[T]) print(found []news[T]) error {
	out := s.cmd.OutOrStdout()
	if s.o.format == "yaml" {
		if _, err := fmt.Fprintln(out, "---"); err != nil {
			return err
		}
	}
	items := make([]T, len(found))
	for i := range found {
		items[i] = found[i].item
	}
	return printCleaned(s.cmd, s.o, listing(s.list, items, nil), func(w io.Writer) error {
		if s.o.is(formatName) {
			return printNames(w, s.kind, len(items), func(i int) string { return s.name(&items[i]) })
		}
		rows := s.tableRows(found)
		if s.grid == nil {
			grid := gridOf(timeColumn + s.columns)
			if s.grid = &grid; !s.o.noHeaders {
				rows = slices.Insert(rows, 0, strings.Split(timeColumn+s.columns, separator))
			}
		}
		return s.grid.Print(w, rows)
	})
}

// timeColumn is the first column of a watch: the time of the change.
const timeColumn = "TIME" + separator

// changedMark is appended to a cell that differs from the same cell in the previous line of the
// item.
const changedMark = "*"

// tableRows returns the rows of items, with the time. If an item was printed before with equally
// many rows, tableRows marks the changed cells. If the item has several rows, it returns only the
// changed ones.
func (s *stream[T]) tableRows(found []news[T]) (rows [][]string) {
	if s.rowsShown == nil {
		s.rowsShown = map[string][][]string{}
	}
	if s.now == nil {
		s.now = time.Now
	}
	at := s.now().Format(time.TimeOnly)
	for i := range found {
		key, now := found[i].key, s.rows(&found[i].item)
		before := s.rowsShown[key]
		if s.rowsShown[key] = now; found[i].gone {
			delete(s.rowsShown, key)
		}
		for j, row := range now {
			if len(before) != len(now) {
				rows = append(rows, slices.Insert(slices.Clone(row), 0, at))
			} else if marked, differs := s.marked(before[j], row); differs || len(now) == 1 {
				rows = append(rows, slices.Insert(marked, 0, at))
			}
		}
	}
	return rows
}

// marked marks the cells that differ from the same row before. It ignores ages, because these
// always change.
func (s *stream[T]) marked(before, now []string) (out []string, differs bool) {
	out = slices.Clone(now)
	for i, name := range strings.Split(s.columns, separator) {
		if now[i] != before[i] && name != ageColumn {
			out[i] += changedMark
			differs = true
		}
	}
	return out, differs
}
