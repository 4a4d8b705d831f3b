package joint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const koordinatorDocument = "../../docs/reference/koordinator.md"

// TestKoordinator checks the published facts of Koordinator's CPU accumulator. Berth gives the same
// result, or the result in the line, which then has the reason.
func TestKoordinator(t *testing.T) {
	golden.Facts(t, "testdata/koordinator.txt", 7, func(fields []string) (ours, theirs string) {
		return koordinatorCase(t, fields), fields[6]
	}).Row(t, koordinatorDocument, "CPU accumulator")
}

func koordinatorCase(t *testing.T, fields []string) string {
	t.Helper()
	var packages, nodes, cores, threads, need int
	if _, err := fmt.Sscanf(fields[0], "%dx%dx%dx%d", &packages, &nodes, &cores, &threads); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(fields[5], &need); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("package:%d numa:%d l3:1 core:%d pu:%d number:packed mem:1Gi dist:10,12,21", packages, nodes, cores, threads)
	switch {
	case packages == 1:
		text = strings.Replace(text, "10,12,21", "10", 1)
	case nodes == 1:
		text = strings.Replace(text, "10,12,21", "10,21", 1)
	}
	c := configOf(text, topology.CPUSet{})
	if fields[1] == "least" {
		c.Strategy = LeastAllocated
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := Want{CPUs: need, Rules: Rules{Bind: map[string]Bind{"full": FullCores, "spread": Spread}[fields[2]], BindHow: Preferred}}
	if w.Rules.Exclusive = map[string]Exclusive{"core": ExclusiveCore, "numa": ExclusiveNUMA}[fields[3]]; w.Rules.Exclusive != Shareable {
		w.Rules.ExclusiveHow = Preferred
	}
	b := m.NewBook()
	if list := strings.Trim(fields[4], "-!"); list != "" {
		m.Take(b, &Held{CPUs: shapes.CPUs(list)})
	}
	try := m.NewTry()
	try.Begin(b)
	var g Grant
	if o := try.Place(&w, &g); o != Placed {
		return o.String()
	}
	return g.CPUs.String()
}
