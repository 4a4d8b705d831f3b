package gang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/gangs"
)

// randomGang is the state of a gang in a random run.
type randomGang struct {
	name    string
	minimum int
	next    int // the number of its next pod
	whole   bool
	// partialFrom is when a part of its minimum was first bound; zero if no such part is bound.
	partialFrom time.Time
}

// maxFailing is how many attempts of a gang can fail in a row: seven members, four times each.
const maxFailing = 30

// randomWorld performs random operations, and checks the gangs.
type randomWorld struct {
	*world
	r     *rand.Rand
	gangs []*randomGang
	made  int
	log   []string
}

// TestGangsAtRandom: whatever fails, no part of a gang stays bound past its deadline, no resources
// stay reserved for nothing, and every gang that fits is placed in the end.
func TestGangsAtRandom(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.live(seed)
				rw := &randomWorld{world: w, r: rand.New(rand.NewPCG(seed, 1))}
				for range 60 {
					rw.step()
				}
				rw.drain()
				if t.Failed() {
					t.Logf("operations: %q", rw.log)
				}
			})
		})
		if !ok {
			return
		}
	}
}

func (w *randomWorld) did(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *randomWorld) step() {
	switch n := w.r.IntN(20); {
	case n < 7 || len(w.gangs) == 0:
		w.newGang()
	case n < 11:
		i := w.r.IntN(len(w.gangs))
		w.did("end %s", w.gangs[i].name)
		w.end(w.gangs[i].name)
		w.gangs = slices.Delete(w.gangs, i, i+1)
	case n < 13:
		w.member(w.gangs[w.r.IntN(len(w.gangs))])
	case n < 15:
		w.loseMember(w.gangs[w.r.IntN(len(w.gangs))])
	case n < 17:
		w.did("restart")
		w.restart()
		for _, g := range w.gangs { // for the new scheduler, the deadline begins again
			g.partialFrom = time.Time{}
		}
	}
	for range 1 + w.r.IntN(3) {
		d := time.Duration(w.r.IntN(4000)) * time.Millisecond
		w.did("run %v", d)
		w.run(d)
		w.look()
	}
}

// newGang makes a gang. Some of its Bindings or attempts will fail.
func (w *randomWorld) newGang() {
	count := 1 + w.r.IntN(7)
	g := &randomGang{name: fmt.Sprint("g", w.made), minimum: 1 + w.r.IntN(count)}
	if w.r.IntN(2) == 0 {
		g.minimum = count
	}
	w.made++
	w.gangs = append(w.gangs, g)
	for range count {
		w.member(g)
	}
}

func (w *randomWorld) member(g *randomGang) {
	pod := podOf(g.name, fmt.Sprintf("%s-%d", g.name, g.next), g.minimum, 1+w.r.IntN(4))
	g.next++
	switch w.r.IntN(12) {
	case 0:
		w.breakBind[pod.Name] = 1 + w.r.IntN(4)
	case 1:
		w.refuse[pod.Name] = 1 + w.r.IntN(4)
	}
	w.did("create %s (minimum %d, %s CPUs, %d Bindings and %d attempts fail)", pod.Name, g.minimum,
		pod.Spec.Containers[0].Resources.Requests.Cpu(), w.breakBind[pod.Name], w.refuse[pod.Name])
	w.create(pod)
}

func (w *randomWorld) loseMember(g *randomGang) {
	if names := w.membersOf(g); len(names) > 0 {
		name := names[w.r.IntN(len(names))]
		w.did("remove %s", name)
		w.remove(name)
	}
}

func (w *randomWorld) membersOf(g *randomGang) (names []string) {
	for uid, pod := range w.pods {
		if pod.Annotations["berth.dev/gang"] == g.name {
			names = append(names, string(uid))
		}
	}
	slices.Sort(names)
	return names
}

// look checks what must be true of the gangs at any time.
func (w *randomWorld) look() {
	w.t.Helper()
	all := 0
	for _, g := range w.gangs {
		bound := w.bound(g.name)
		all += bound
		g.whole = g.whole || bound >= g.minimum
		switch {
		case g.whole || bound == 0:
			g.partialFrom = time.Time{}
		case g.partialFrom.IsZero():
			g.partialFrom = time.Now()
		case time.Since(g.partialFrom) > gangTimeout+5*time.Second:
			w.t.Errorf("gang %s has had %d of %d members bound for %v", g.name, bound, g.minimum, time.Since(g.partialFrom))
			g.whole = true // report this only once
		}
	}
	if held := w.held(); held != all+len(w.waiting)+w.turning {
		w.t.Errorf("%d places are held for %d bound pods, %d that wait in Permit and %d for their waves", held, all, len(w.waiting), w.turning)
	}
}

// drain ends running gangs, until everything that fits has run.
func (w *randomWorld) drain() {
	w.did("drain")
	for len(w.gangs) > 0 {
		w.run(maxFailing * gangs.LongestPause)
		w.look()
		ran := slices.DeleteFunc(slices.Clone(w.gangs), func(g *randomGang) bool { return w.bound(g.name) == 0 })
		for _, g := range ran {
			w.end(g.name)
		}
		w.gangs = slices.DeleteFunc(w.gangs, func(g *randomGang) bool { return slices.Contains(ran, g) })
		if len(ran) == 0 {
			break
		}
	}
	for _, g := range w.gangs {
		if names := w.membersOf(g); len(names) >= g.minimum && len(names) > 0 && w.fits(names[0]) {
			w.t.Errorf("gang %s, minimum %d, of pods %v, does not run, though nothing else does", g.name, g.minimum, names)
		}
	}
	if held := w.held(); held > 0 {
		w.t.Errorf("%d places are held in the end", held)
	}
}

// fits reports whether a plan for the pod's gang exists now.
func (w *randomWorld) fits(pod string) bool {
	w.groups.book.mu.Lock()
	j := w.groups.book.job(w.groups.book.of[types.UID(pod)], types.UID(pod))
	w.groups.book.mu.Unlock()
	return j.try(w.t.Context(), w.profile()).Whole
}
