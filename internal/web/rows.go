package web

import (
	"cmp"
	"slices"
	"sync"
)

// maxGone is the maximum number of removed nodes whose names are stored. If a page has missed more
// removals, it must load all nodes again.
const maxGone = 4096

// rows numbers the changes of nodes, so that a page can request only the changes that it has not
// seen.
type rows struct {
	mu      sync.Mutex
	number  uint64 // the number of the last change
	changed map[string]uint64
	gone    []gone // ascending by number
	// forgotten is the number of the latest removal that gone no longer has; 0 if gone has all
	// removals.
	forgotten uint64
}

type gone struct {
	name   string
	number uint64
}

func newRows() *rows { return &rows{number: 1, changed: map[string]uint64{}} }

// note records that the named nodes may have changed, and returns the number of the change. The
// function there reports whether a node still exists.
func (r *rows) note(names []string, there func(string) bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	for _, name := range names {
		if there(name) {
			r.changed[name] = r.number
			continue
		}
		if _, known := r.changed[name]; known {
			delete(r.changed, name)
			r.gone = append(r.gone, gone{name, r.number})
		}
	}
	if over := len(r.gone) - maxGone; over > 0 {
		r.forgotten = r.gone[over-1].number
		r.gone = slices.Delete(r.gone, 0, over)
	}
	return r.number
}

// since returns what happened after the change with the given number: names has the nodes that
// changed, went has the nodes that were removed, and now is the number of the last change. The
// result anew is true if the given number is 0 or unknown, or if gone no longer has all later
// removals. If anew is true, names has all existing nodes, and the page must drop the nodes that it
// has.
func (r *rows) since(number uint64) (now uint64, names, went []string, anew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number < r.forgotten || number > r.number {
		number, anew = 0, true
	}
	for name, at := range r.changed {
		if at > number {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	from, _ := slices.BinarySearchFunc(r.gone, number+1, func(g gone, n uint64) int { return cmp.Compare(g.number, n) })
	for _, g := range r.gone[from:] {
		if _, back := r.changed[g.name]; !back && number > 0 {
			went = append(went, g.name)
		}
	}
	return r.number, names, went, anew || number == 0
}
