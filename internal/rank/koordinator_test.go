package rank

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestKoordinatorScores checks the published facts about Koordinator's scores of nodes.
func TestKoordinatorScores(t *testing.T) {
	golden.Facts(t, "testdata/koordinator-scores.txt", 4, func(fields []string) (ours, theirs string) {
		need, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		s := defaults()
		var scores []int64
		for _, node := range strings.Split(strings.ReplaceAll(fields[2], ",", " "), " ") {
			scores = append(scores, s.fit(tableOffer(t, node, fields[0], need)))
		}
		if len(scores) == 1 {
			return fmt.Sprint(scores[0]), fields[3]
		}
		return orderOf(scores), fields[3]
	}).Row(t, "../../docs/reference/koordinator.md", "scores of nodes")
}

// tableOffer returns the offer of a node in the table to a pod.
func tableOffer(t *testing.T, text, strategy string, need int) *Offer {
	t.Helper()
	shape, taken, _ := strings.Cut(text, "/")
	var packages, nodes, cores, threads int
	if _, err := fmt.Sscanf(shape, "%dx%dx%dx%d", &packages, &nodes, &cores, &threads); err != nil {
		t.Fatal(err)
	}
	m := shapes.Machine(fmt.Sprintf("package:%d numa:%d core:%d pu:%d number:packed mem:1Gi", packages, nodes, cores, threads))
	c := joint.Config{Strategy: joint.LeastAllocated}
	if strategy == "fill" {
		c.Strategy = joint.FillNodes
	}
	for i := range m.NUMANodes {
		n := joint.Node{ID: m.NUMANodes[i].ID}
		for _, k := range m.Cores {
			if k.CPUs.IsSubsetOf(&m.NUMANodes[i].CPUs) {
				n.Cores = append(n.Cores, joint.Core{CPUs: slices.Collect(k.CPUs.All())})
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	model, err := joint.New(c)
	if err != nil {
		t.Fatal(err)
	}
	others := shapes.CPUs(taken)
	try := model.NewTry()
	model.Cores.Take(&try.Book, others)
	o := &Offer{Spare: ledger.Spare{CPUs: model.Cores.Free(&try.Book)}, Certain: true, Asked: need, Machine: m}
	b := model.NewBook()
	b.CopyFrom(&try.Book)
	var g joint.Grant
	if got := try.Place(&joint.Want{CPUs: need}, &g); got != joint.Placed {
		t.Fatalf("%s: %d CPUs: %v", text, need, got)
	}
	for v := range g.Nodes.All() {
		o.Reach = o.Reach.With(c.Nodes[v].ID)
	}
	if o.OwnFit = strategy != "most"; o.OwnFit {
		o.Fit = model.Score(b, g.Nodes)
	}
	return o
}

// orderOf prints the order of the nodes.
func orderOf(scores []int64) string {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	out := fmt.Sprint(order[0] + 1)
	for i, o := range order[1:] {
		out += map[bool]string{true: "=", false: ">"}[scores[o] == scores[order[i]]] + fmt.Sprint(o+1)
	}
	return out
}

// TestNodesInUseComeFirst: according to Koordinator's proposal of 2023, with MostAllocated the node
// with more NUMA nodes in use comes first. Here, a pod of one NUMA node goes to a node in use
// before an empty one. This is true even with NodeResourcesFit, which prefers empty nodes as much
// as a plugin of weight 1 can, and for nodes without the label.
func TestNodesInUseComeFirst(t *testing.T) {
	s := defaults()
	const shape, need = "4x1x4x1", 4
	for used, taken := range []string{1: "/0-3", 2: "/0-7", 3: "/0-11"} {
		if taken == "" {
			continue
		}
		score := func(strategy, taken string) int64 {
			return int64(s.Rank(tableOffer(t, shape+taken, strategy, need)).Score)
		}
		const weight = 2 // of the plugin
		if more, others := weight*(score("fill", taken)-score("fill", "")), int64(100*used/4); more <= others {
			t.Errorf("%d of 4 NUMA nodes are in use: the node scores %d more than an empty one, and NodeResourcesFit takes %d off", used, more, others)
		}
		if a, b := score("most", taken), score("most", ""); a <= b {
			t.Errorf("%d of 4 NUMA nodes are in use: without the label the node has %d, an empty one %d", used, a, b)
		}
	}
}
