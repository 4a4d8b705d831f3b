package joint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
)

// deviceTable is a machine of testdata/koordinator-devices.txt: the root complexes of its GPUs and
// cards, and how many functions each card has.
type deviceTable struct {
	gpus, cards []int
	functions   func(card int) int // of a card; nil for none
	perNode     int                // root complexes on a NUMA node
	bare        bool               // the places of all devices are unknown
}

var (
	fourRoots = []int{0, 1, 2, 3}
	twoEach   = []int{0, 0, 1, 1, 2, 2, 3, 3}
	oneEach   = []int{0, 1, 2, 3, 4, 5, 6, 7}

	deviceTables = map[string]deviceTable{
		"eight":   {gpus: twoEach, cards: fourRoots, functions: func(int) int { return 30 }, perNode: 2},
		"pairs":   {gpus: twoEach, cards: []int{0, 1, 2, 3, 0, 1, 2, 3}, perNode: 2},
		"flat":    {gpus: twoEach, cards: fourRoots, functions: func(int) int { return 30 }, perNode: 4},
		"flatone": {gpus: twoEach, cards: fourRoots, functions: func(card int) int { return max(0, 30-30*card) }, perNode: 4},
		"bare":    {gpus: twoEach, cards: fourRoots, perNode: 2, bare: true},
		"lop":     {gpus: fourRoots, cards: []int{0, 0, 0, 1, 2, 3}, perNode: 4},
		"h800":    {gpus: oneEach, cards: oneEach, functions: func(int) int { return 4 }, perNode: 4},
	}
)

// The kinds of devices of these machines. A card is allocated as a whole or by its functions, as
// the request says.
const (
	tableGPU = iota
	tableCard
	tableFunction
	tableFPGA
)

// model compiles the machine.
func (d deviceTable) model(t *testing.T) *Model {
	c := configOf(deviceMachines[1], topology.CPUSet{})
	c.Devices = []DeviceKind{{Name: "gpu"}, {Name: "card"}, {Name: "function"}, {Name: "fpga"}}
	at := func(root int) Device {
		if d.bare {
			return Device{Node: NoNode}
		}
		return Device{Node: root / d.perNode, Root: 1 + root}
	}
	add := func(kind int, id string, dev Device) {
		dev.ID = id
		c.Devices[kind].Devices = append(c.Devices[kind].Devices, dev)
	}
	for i, root := range d.gpus {
		add(tableGPU, fmt.Sprint("g", i), at(root))
	}
	for i, root := range d.cards {
		add(tableCard, fmt.Sprint("c", i), at(root))
		if d.functions == nil {
			continue
		}
		dev := at(root)
		dev.Function = 1 + i
		for f := range d.functions(i) {
			add(tableFunction, fmt.Sprintf("v%d.%d", i, f), dev)
		}
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestKoordinatorDevices checks the published facts of Koordinator's device allocator.
func TestKoordinatorDevices(t *testing.T) {
	models := map[string]*Model{}
	for name, d := range deviceTables {
		models[name] = d.model(t)
	}
	golden.Facts(t, "testdata/koordinator-devices.txt", 6, func(fields []string) (ours, theirs string) {
		m := models[fields[1]]
		if theirs = fields[5]; fields[0] == "hints" {
			theirs = onlyPreferred(theirs)
		}
		b := m.NewBook()
		takeTable(m, b, fields[4])
		var out []string
		for _, want := range strings.Split(fields[2], ";") {
			out = append(out, chooseTable(m, b, fields[0], wantTable(want, fields[3])))
		}
		return strings.Join(out, ";"), theirs
	}).Row(t, koordinatorDocument, "devices")
}

// takeTable takes the devices of other pods. "v0.*" means all functions of a card.
func takeTable(m *Model, b *Book, text string) {
	for _, id := range strings.Split(text, ",") {
		all, isAll := strings.CutSuffix(id, "*")
		for k := range m.Devices.kinds {
			for i, known := range m.Devices.kinds[k].ids {
				if known == id || isAll && strings.HasPrefix(known, all) {
					m.Devices.Take(b, DeviceRef{uint8(k), m.Devices.kinds[k].given[i]})
				}
			}
		}
	}
}

func wantTable(text, same string) Want {
	w := Want{}
	switch same {
	case "root", "root!":
		w.Same, w.SameHow = SameRoot, Preferred
	case "one!":
		w.Same = OneRoot
	case "numa!":
		w.Width = One
	}
	if strings.HasSuffix(same, "!") && w.Same != Anywhere {
		w.SameHow = Required
	}
	for _, part := range strings.Split(text, "+") {
		d := DeviceWant{Kind: uint8(strings.Index("gcvf", part[:1])), All: part[1:] == "*"}
		d.N, _ = strconv.Atoi(part[1:])
		d.OnePerFunction = d.Kind == tableFunction
		w.Devices = append(w.Devices, d)
	}
	return w
}

// chooseTable returns the result of a want in the notation of the table.
func chooseTable(m *Model, b *Book, kind string, w Want) string {
	try := m.NewTry()
	var g Grant
	on := func(nodes string) bool {
		w.Within = masksOf(m, nodes)
		w.WithinEmpty = w.Within
		try.Begin(b)
		return try.Place(&w, &g) == Placed
	}
	switch {
	case kind == "hints":
		return tellHints(on)
	case kind == "on":
		return map[bool]string{true: "yes", false: "no"}[on("0")]
	case !on("*"):
		return "no"
	}
	slices.SortFunc(g.Devices, func(a, b DeviceRef) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index)) })
	var out []string
	for _, d := range g.Devices {
		out = append(out, m.Devices.kinds[d.Kind].ids[m.Devices.kinds[d.Kind].index[d.Index]])
	}
	return strings.Join(out, ",")
}
