package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
)

// TestBudgetOfTenants: whatever wishes a gang of 4096 members has, a plan asks ledgers only as
// often as its budget allows, and reports that it was cut off.
func TestBudgetOfTenants(t *testing.T) {
	const many = 4096
	m := model(t, twoSockets)
	for name, wish := range map[string]func(g *Gang, i int){
		"* and the next": func(g *Gang, i int) {
			g.Wish(i, Wish{All: true, Apart: true, Required: true})
			g.Wish(i, Wish{Mate: (i + 1) % many, Apart: true, Required: true})
		},
		"* and 8 names": func(g *Gang, i int) {
			g.Wish(i, Wish{All: true, Apart: true, Required: true})
			for n := range 8 {
				g.Wish(i, Wish{Mate: (i + 1 + n*n) % many, Apart: true, Required: true})
			}
		},
		"64 names": func(g *Gang, i int) {
			for n := range 64 {
				g.Wish(i, Wish{Mate: (i + 1 + n) % many, Apart: true, Required: true})
			}
		},
		"preferred": func(g *Gang, i int) {
			g.Wish(i, Wish{Mate: (i + 1) % many, Apart: i%2 > 0})
		},
		"a kind each": func(g *Gang, i int) { g.Members[i].Kind = i },
	} {
		for _, nodes := range []int{500, 4096} {
			g := Gang{Minimum: many}
			for i := range many {
				g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 2, 100+int64(i/50)))
			}
			for i := range many {
				wish(&g, i)
			}
			f, b := newField(t, m, nodes), NewBudget(t.Context())
			p := Make(&g, f, b)
			if p.Whole == p.Cut || nodes == 500 && p.Whole {
				t.Errorf("%s, %d nodes: whole %t, cut off %t", name, nodes, p.Whole, p.Cut)
			}
			if most := Looks / promiseLooks(&g.Members[0].Pod); f.asked > most {
				t.Errorf("%s, %d nodes: %d ledgers were asked, want %d at most", name, nodes, f.asked, most)
			}
			if !p.Whole && len(p.Places) > 0 {
				for node, n := range f.on {
					if n != 0 {
						t.Errorf("%s: %d members are left on node %d", name, n, node)
					}
				}
			}
		}
	}
}

// TestBudgetOfHonestGangs: the budget must be sufficient for these gangs.
func TestBudgetOfHonestGangs(t *testing.T) {
	m := model(t, twoSockets)
	for name, g := range map[string]*Gang{"alike": {Minimum: 4096}, "apart from all": {Minimum: 1024}} {
		for i := range g.Minimum {
			g.Members = append(g.Members, member(fmt.Sprint("m", i), 0, 2, 100+int64(i/50)))
		}
		for i := range g.Members {
			if g.Minimum == 1024 {
				g.Wish(i, Wish{All: true, Apart: true, Required: true})
			}
		}
		if p := Make(g, newField(t, m, 5000), NewBudget(t.Context())); !p.Whole {
			t.Errorf("%s: cut off %t, %d members have nodes", name, p.Cut, len(p.Places))
		}
	}
}

// TestABudgetEndsWithItsContext: a canceled request gets no answer.
func TestABudgetEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := NewBudget(ctx)
	f, g := newField(t, model(t, twoSockets), 2), Gang{Minimum: 2, Members: members(2, 2)}
	if p := Make(&g, f, b); !p.Cut || f.asked > 0 {
		t.Errorf("cut off %t after %d questions", p.Cut, f.asked)
	}
	if !b.Late() {
		t.Error("it does not say so")
	}
}

// TestContainersCost: a pod with many containers costs a ledger more.
func TestContainersCost(t *testing.T) {
	one, many := member("a", 0, 2, 100), member("b", 0, 2, 100)
	for range 249 {
		many.Candidate.Request.Containers = append(many.Candidate.Request.Containers, placement.ContainerRequest{Kind: placement.Init})
	}
	if x, y := promiseLooks(&one.Pod), promiseLooks(&many.Pod); y < 100*x || y > Looks/10 {
		t.Errorf("one container costs %d looks, 250 cost %d", x, y)
	}
}

// TestDearIsNamed: a refusal says why the plan is too expensive.
func TestDearIsNamed(t *testing.T) {
	for want, d := range map[string]Dear{
		"4096 pods of one kind, with 8192 references to other pods in annotations; use fewer pods or fewer such references": {Members: 4096, Kinds: 1, Names: 8192},
		"with 3 spread constraints": {Members: 4096, Kinds: 3, Terms: 3},
		"more than 256 kinds":       {Members: 4096, Kinds: MaxKinds + 1},
		"within 5s":                 {Members: 4096, Kinds: 1, Late: true},
	} {
		if got := d.String(); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
