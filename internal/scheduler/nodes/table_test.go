package nodes

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// TestTableNamed looks nodes up from many goroutines while the nodes are made. A name is always the
// same node.
func TestTableNamed(t *testing.T) {
	const count = 200
	table := NewTable(testingclock.NewFakeClock(time.Unix(1000, 0)), time.Minute)
	found := make([][count]*Node, 8)
	var wg sync.WaitGroup
	for g := range found {
		wg.Go(func() {
			for round := range 3 {
				for i := range count {
					at := (i*7 + g*13) % count
					got := table.Named(fmt.Sprint("n", at))
					if round > 0 && got != found[g][at] {
						t.Errorf("n%d is another node the second time", at)
					}
					found[g][at] = got
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]*Node{}
	table.All(func(each *Node) bool { seen[each.name] = each; return true })
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
}

// TestTableOf looks nodes up by objects that come and go, from many goroutines.
func TestTableOf(t *testing.T) {
	const count = 300
	table := NewTable(testingclock.NewFakeClock(time.Unix(1000, 0)), time.Minute)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range 20 {
				objects := make([]*corev1.Node, count)
				for i := range objects {
					objects[i] = nodeObject(fmt.Sprint("n", i))
				}
				for i := range 2 * count {
					o := objects[(i*7+g)%count]
					if got := table.Of(o); got.name != o.Name {
						t.Errorf("round %d: %s is %s", round, o.Name, got.name)
					}
				}
				found := make([]*Node, count)
				table.OfEach(objects, found)
				for i, o := range objects {
					if found[i] != table.Named(o.Name) {
						t.Errorf("round %d: among others, %s is %s", round, o.Name, found[i].name)
					}
				}
			}
		})
	}
	wg.Wait()
	if slots := len(*table.byObject.slots.Load()); slots > 16*count {
		t.Errorf("%d slots for %d nodes", slots, count)
	}
	if got := table.numbers.Load(); got != count {
		t.Errorf("%d nodes, want %d", got, count)
	}
}

// TestTableOfAgrees compares Of with Named, its slow twin: nodes go, come back, and get new
// objects.
func TestTableOfAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	table := NewTable(testingclock.NewFakeClock(time.Unix(1000, 0)), time.Minute)
	objects := map[string]*corev1.Node{}
	for step := range 20000 {
		name := fmt.Sprint("n", rng.IntN(200))
		switch rng.IntN(20) {
		case 0:
			if objects[name] != nil {
				table.drop(map[string]bool{name: true})
			}
		case 1, 2:
			objects[name] = nodeObject(name)
		}
		if o := objects[name]; o != nil && table.Of(o) != table.Named(name) {
			t.Fatalf("step %d: %s is another node by its object than by its name", step, name)
		}
	}
}

// TestHotFieldsShareACacheLine: the fields of a node that are read for every pod are in one cache
// line.
func TestHotFieldsShareACacheLine(t *testing.T) {
	const line = 64
	var n Node
	if size := unsafe.Sizeof(n); size%line != 0 {
		t.Errorf("a Node has %d bytes: want a multiple of %d, so that each begins with a cache line", size, line)
	}
	if end := unsafe.Offsetof(n.hot) + unsafe.Sizeof(n.hot); end > line {
		t.Errorf("the hot fields end at byte %d: want at most %d", end, line)
	}
}
