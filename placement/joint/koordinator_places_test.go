package joint

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// placesMachine is the machine of testdata/koordinator-places.txt.
func placesMachine(t *testing.T) *Model {
	c := configOf("package:2 numa:1 l3:1 core:26 pu:2 number:packed mem:128Gi dist:10,21", topology.CPUSet{})
	c.Strategy = LeastAllocated
	for i := range c.Nodes {
		c.Nodes[i].Amounts[1] = 4 << 30
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestKoordinatorPlaces checks the published facts of Koordinator's resource manager: the
// distribution over NUMA nodes, and hints.
func TestKoordinatorPlaces(t *testing.T) {
	m := placesMachine(t)
	tell := func(fields []string) string {
		b, try := m.NewBook(), m.NewTry()
		takePlaces(t, m, b, fields[4])
		var out []string
		for _, need := range strings.Split(fields[2], ";") {
			w := placesWant(t, fields[1], need)
			place := func(nodes string, g *Grant) PlaceResult {
				w.Within = masksOf(m, nodes)
				w.WithinEmpty = w.Within
				try.Begin(b)
				return try.Place(&w, g)
			}
			var g Grant
			switch {
			case fields[0] == "hints":
				out = append(out, tellHints(func(nodes string) bool { return place(nodes, &g) == Placed }))
			case place(fields[3], &g) != Placed:
				out = append(out, "no")
			case w.CPUs > 0:
				out = append(out, g.CPUs.String())
			default:
				out = append(out, tellAmounts(g.Amounts))
			}
		}
		return strings.Join(out, ";")
	}
	golden.Facts(t, "testdata/koordinator-places.txt", 6, func(fields []string) (ours, theirs string) {
		theirs = fields[5]
		if fields[0] == "hints" {
			theirs = onlyPreferred(theirs)
		}
		return tell(fields), theirs
	}).Row(t, koordinatorDocument, "splits over NUMA nodes, and hints")
}

// takePlaces takes the resources of other pods.
func takePlaces(t *testing.T, m *Model, b *Book, text string) {
	cpus, amounts, _ := strings.Cut(text, "/")
	var h Held
	if cpus != "-" {
		h.CPUs = shapes.CPUs(cpus)
	}
	for _, part := range strings.Split(amounts, "/") {
		name, list, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		for node, n := range strings.Split(list, ",") {
			a := amountOf(t, name, n)
			h.Amounts = append(h.Amounts, NodeAmount{Kind: a.Kind, Node: uint8(node), N: a.N})
		}
	}
	m.Take(b, &h)
}

// placesWant parses a request.
func placesWant(t *testing.T, bind, text string) (w Want) {
	for _, part := range strings.Split(text, "+") {
		name, n, named := strings.Cut(part, "=")
		switch {
		case named:
			w.Amounts = append(w.Amounts, amountOf(t, name, n))
		case bind == "share":
			w.Amounts = append(w.Amounts, amountOf(t, "cpu", part))
		default:
			w.CPUs, _ = strconv.Atoi(part)
			w.Rules = Rules{Bind: map[string]Bind{"full": FullCores, "spread": Spread}[bind], BindHow: Required}
		}
	}
	return w
}

// amountOf parses an amount of CPUs, or of memory in GiB.
func amountOf(t *testing.T, name, text string) Amount {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	switch name {
	case "cpu":
		return Amount{CPU, uint64(1000 * n)}
	case "mem":
		return Amount{1, uint64(n) << 30}
	}
	return Amount{2, uint64(n) << 30}
}

func tellAmounts(list []NodeAmount) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%d:%v", a.Node, float64(a.N)/1000))
	}
	return strings.Join(parts, ",")
}

// masksOf returns the named set of NUMA nodes, nil for "*".
func masksOf(m *Model, nodes string) hint.Set {
	if nodes == "*" {
		return nil
	}
	var mask hint.Mask
	for _, digit := range nodes {
		mask |= 1 << (digit - '0')
	}
	s := m.space.NewSet()
	s.Add(mask)
	return s
}

// tellHints returns the smallest of the possible sets of two NUMA nodes, in the notation of the
// tables.
func tellHints(will func(nodes string) bool) string {
	for _, wide := range [][]string{{"0", "1"}, {"01"}} {
		var parts []string
		for _, nodes := range wide {
			if will(nodes) {
				parts = append(parts, nodes+"!")
			}
		}
		if parts != nil {
			return strings.Join(parts, ",")
		}
	}
	return "no"
}

// onlyPreferred returns only the preferred hints of published hints.
func onlyPreferred(text string) string {
	var out []string
	for _, resource := range strings.Split(text, ";") {
		var parts []string
		for _, h := range strings.Split(resource, ",") {
			if strings.HasSuffix(h, "!") || h == "no" {
				parts = append(parts, h)
			}
		}
		out = append(out, strings.Join(parts, ","))
	}
	return strings.Join(out, ";")
}
