package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// gangTimeout is the timeout of gangs whose object has none.
const gangTimeout = time.Minute

// Gang describes a gang that the driver creates.
type Gang struct {
	Name   string
	At     time.Duration
	Source wire.GangSource
	// Minimum is how many members start together, Tasks how many of each task.
	Minimum int
	Tasks   map[string]int
	// Resources means that the gang's object has minResources, in CPUs.
	Resources int64
	// Timeout is the timeout in its object; 0 for none.
	Timeout time.Duration
	Members []Member
	// ObjectLast means that its object is created after its pods.
	ObjectLast bool
	// TooLarge means that the gang does not fit even on empty nodes.
	TooLarge bool
	// Urgent means that it has a higher priority than all other pods.
	Urgent bool
	// Stays is the time from the gang's completion to its deletion. If the gang is too large, the
	// time begins with its creation.
	Stays time.Duration
	// More are members that are added when the gang is complete.
	More []Member
	// Loses means that one member is deleted and replaced when the gang is complete.
	Loses bool
	// Kill describes when the scheduler is killed while it binds the gang. The zero value means
	// never.
	Kill Kill
}

// Kill describes when a scheduler is killed.
type Kill struct {
	// After is the number of Bindings that it writes first. It is killed at the next one.
	After int
	// Arrives means that the Binding in progress is still carried out.
	Arrives bool
}

// Member is a pod of a gang.
type Member struct {
	Task           string
	CPUs, MemoryMi int64
	// Init is the request of its init container; 0 means none.
	Init int64
}

// Single is a pod of no gang.
type Single struct {
	Name   string
	At     time.Duration
	Member Member
	Stays  time.Duration
}

// Restart is a restart of a kubelet.
type Restart struct {
	At   time.Duration
	Node int
}

// Plan is the list of all actions.
type Plan struct {
	Gangs    []Gang
	Singles  []Single
	Restarts []Restart
}

var sizes = []int{2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12, 16, 24, 32}

// sources are the ways to declare a gang.
var sources = []wire.GangSource{wire.GangOfPods, wire.GangOfVolcano, wire.GangOfSigs}

// NewPlan makes the plan of a run: the same for equal arguments.
func NewPlan(seed uint64, gangs int) Plan {
	r := rand.New(rand.NewPCG(seed, 0x67616e6773))
	var p Plan
	at := time.Duration(0)
	for i := range gangs {
		p.Gangs = append(p.Gangs, newGang(r, i, at))
		at += time.Duration(300+r.IntN(1200)) * time.Millisecond
		if r.IntN(2) == 0 {
			p.Singles = append(p.Singles, Single{fmt.Sprintf("single-%03d", len(p.Singles)), at,
				Member{CPUs: 1 + r.Int64N(largest), MemoryMi: 64}, time.Duration(1000+r.IntN(8000)) * time.Millisecond})
		}
		if i%25 == 15 {
			p.Restarts = append(p.Restarts, Restart{at, r.IntN(len(kinds))})
		}
	}
	return p
}

func newGang(r *rand.Rand, i int, at time.Duration) Gang {
	g := Gang{Name: fmt.Sprintf("g%04d", i), At: at, Source: sources[r.IntN(len(sources))], ObjectLast: r.IntN(3) == 0, Urgent: i%8 == 2,
		Stays: time.Duration(500+r.IntN(3000)) * time.Millisecond}
	switch i % 10 {
	case 3:
		g.tooLarge(r)
		g.Minimum = len(g.Members)
		return g
	case 5:
		for range 1 + r.IntN(3) {
			g.More = append(g.More, Member{CPUs: 1 + r.Int64N(2), MemoryMi: 64})
		}
	case 7:
		g.Kill = Kill{After: 1, Arrives: r.IntN(2) == 0}
	case 1:
		g.Loses = true
	}
	g.fill(r, i%3 == 0)
	g.Minimum = len(g.Members)
	switch {
	case g.Kill.After > 0:
		g.Kill.After = 1 + r.IntN(g.Minimum-1)
	case g.Minimum > 3 && r.IntN(4) == 0:
		g.Minimum -= 1 + r.IntN(g.Minimum/3)
	}
	g.declare(r)
	return g
}

// fill adds the gang's members. They have one or two shapes. If mixed is true, they have three or
// more shapes and init containers.
func (g *Gang) fill(r *rand.Rand, mixed bool) {
	size := sizes[r.IntN(len(sizes))]
	if mixed {
		size = max(size, 4)
	}
	shapes := []Member{{CPUs: 1 + r.Int64N(largest), MemoryMi: 64}}
	if r.IntN(2) == 0 {
		shapes = append(shapes, Member{CPUs: 1 + r.Int64N(largest), MemoryMi: 128})
	}
	if mixed {
		shapes = []Member{{CPUs: 1, MemoryMi: 64}, {CPUs: 2, MemoryMi: 64, Init: 1 + r.Int64N(3)}, {CPUs: 1 + r.Int64N(2), MemoryMi: 256, Init: 1}}
		if r.IntN(2) == 0 {
			shapes = append(shapes, Member{CPUs: 3, MemoryMi: 128})
		}
	}
	left := int64(fitting)
	for k := range size {
		m := shapes[k%len(shapes)]
		if m.Task = "worker"; k == 0 {
			m.Task = "leader"
		}
		// The other members take at least one CPU each.
		if room := left - int64(size-1-k); max(m.CPUs, m.Init) > room {
			m.CPUs, m.Init = 1, 0
		}
		left -= max(m.CPUs, m.Init)
		g.Members = append(g.Members, m)
	}
}

func (g *Gang) tooLarge(r *rand.Rand) {
	g.TooLarge = true
	g.Stays *= 3
	for range tooMany + 2 + r.IntN(5) {
		g.Members = append(g.Members, Member{Task: "worker", CPUs: large, MemoryMi: 64})
	}
}

// declare sets further fields of the gang's object.
func (g *Gang) declare(r *rand.Rand) {
	switch {
	case g.Source == wire.GangOfSigs && r.IntN(2) == 0:
		g.Timeout = time.Duration(30+r.IntN(30)) * time.Second
	case g.Source == wire.GangOfVolcano && r.IntN(2) == 0:
		g.Tasks = map[string]int{"leader": 1}
	case g.Source == wire.GangOfVolcano:
		for _, m := range g.Members {
			g.Resources += m.CPUs
		}
	}
}

// shapes counts the shapes of the gang's members.
func (g *Gang) shapes() int {
	var seen []Member
	for _, m := range g.Members {
		if m.Task = ""; !slices.Contains(seen, m) {
			seen = append(seen, m)
		}
	}
	return len(seen)
}
