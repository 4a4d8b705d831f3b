package scheduler

import (
	"fmt"
	"sync"
	"testing"
)

// TestNodesGet looks nodes up from many goroutines while they are made and settled: a name is one
// node for ever.
func TestNodesGet(t *testing.T) {
	const count = 200
	var n nodes
	found := make([][count]*node, 8)
	var wg sync.WaitGroup
	for g := range found {
		wg.Go(func() {
			for round := range 3 {
				for i := range count {
					at := (i*7 + g*13) % count
					got := n.get(fmt.Sprint("n", at))
					if round > 0 && got != found[g][at] {
						t.Errorf("n%d is another node the second time", at)
					}
					found[g][at] = got
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]*node{}
	n.all(func(each *node) bool { seen[each.name] = each; return true })
	if len(seen) != count {
		t.Errorf("%d nodes, want %d", len(seen), count)
	}
	for g := range found {
		for i, got := range found[g] {
			if want := fmt.Sprint("n", i); got != seen[want] || got.name != want {
				t.Fatalf("goroutine %d got %q for %s, or another node than the others", g, got.name, want)
			}
		}
	}
	if len(n.fresh) > 0 {
		t.Errorf("%d nodes are not settled after having been listed", len(n.fresh))
	}
}
