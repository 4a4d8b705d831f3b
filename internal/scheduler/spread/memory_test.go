package spread

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// oneNode is a node with one pod, which counts how often its pods are gone through.
type oneNode struct {
	fwk.NodeInfo
	fwk.PodInfo
	node       *corev1.Node
	pod        *corev1.Pod
	generation int64
	listed     int
}

func (n *oneNode) Node() *corev1.Node   { return n.node }
func (n *oneNode) GetGeneration() int64 { return n.generation }
func (n *oneNode) GetPod() *corev1.Pod  { return n.pod }
func (n *oneNode) GetPods() []fwk.PodInfo {
	n.listed++
	return []fwk.PodInfo{n}
}

func nodeWith(generation int64, app string) *oneNode {
	return &oneNode{
		generation: generation,
		node:       &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", generation), Labels: map[string]string{"zone": app}}},
		pod:        &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": app}}},
	}
}

// TestPodsAreCountedOnce: the pods of a node are gone through once for each selector, and again
// when the node has changed or others stand in its place.
func TestPodsAreCountedOnce(t *testing.T) {
	var m Memory
	a, b := nodeWith(1, "a"), nodeWith(2, "b")
	selector := labels.SelectorFromSet(labels.Set{"app": "a"})
	ask := func(nodes []fwk.NodeInfo, want ...int) {
		t.Helper()
		m.Look(nodes)
		counts := m.Counts("ns", selector)
		for place := range nodes {
			if got := counts.At(place); got != want[place] {
				t.Errorf("%d pods in place %d, want %d", got, place, want[place])
			}
		}
	}
	nodes := []fwk.NodeInfo{a, b}
	for range 3 {
		ask(nodes, 1, 0)
	}
	b.generation, b.pod = 3, a.pod
	ask(nodes, 1, 1)
	if a.listed != 1 || b.listed != 2 {
		t.Errorf("the pods were gone through %d and %d times, want once and twice", a.listed, b.listed)
	}
	ask([]fwk.NodeInfo{nodeWith(4, "c"), a}, 0, 1)
	ask([]fwk.NodeInfo{a}, 1)
	ask(nil)
	ask(nodes, 1, 1)
}

// TestCountsFollowTheNodes: whatever nodes come, go and change between two questions, the answers
// are those of the nodes themselves.
func TestCountsFollowTheNodes(t *testing.T) {
	random, generation := rand.New(rand.NewPCG(1, 2)), int64(0)
	apps := []string{"a", "b", "c"}
	made := func() fwk.NodeInfo {
		generation++
		return nodeWith(generation, apps[random.IntN(len(apps))])
	}
	var m Memory
	var nodes []fwk.NodeInfo
	for range 2000 {
		switch at := random.IntN(len(nodes) + 1); {
		case random.IntN(3) == 0 && len(nodes) < 12:
			nodes = slices.Insert(slices.Clone(nodes), at, made())
		case at == len(nodes):
		case random.IntN(3) == 0:
			nodes = slices.Delete(slices.Clone(nodes), at, at+1)
		default:
			changed := made().(*oneNode)
			n := nodes[at].(*oneNode)
			n.generation, n.node, n.pod = changed.generation, changed.node, changed.pod
		}
		for range 1 + random.IntN(2) {
			m.Look(nodes)
		}
		app := apps[random.IntN(len(apps))]
		counts := m.Counts("ns", labels.SelectorFromSet(labels.Set{"app": app}))
		for place, info := range nodes {
			is := info.(*oneNode).pod.Labels["app"]
			if got := counts.At(place) == 1; got != (is == app) {
				t.Fatalf("place %d: a pod of %s counts for %s: %t", place, is, app, got)
			}
		}
		if random.IntN(3) > 0 {
			continue
		}
		values, numbers := m.Values("zone"), map[string]int32{}
		for place, info := range nodes {
			number, zone := values.At(place), info.Node().Labels["zone"]
			if as, known := numbers[zone]; number == missing || number == empty || known && as != number {
				t.Fatalf("place %d: zone %s has the numbers %d and %d", place, zone, number, as)
			}
			numbers[zone] = number
		}
		if distinct := slices.Compact(slices.Sorted(maps.Values(numbers))); len(distinct) != len(numbers) {
			t.Fatalf("zones share numbers: %v", numbers)
		}
	}
}

// TestSelectorsAreBounded: what was not asked about for the longest time is forgotten, and what is
// in use is not.
func TestSelectorsAreBounded(t *testing.T) {
	var m Memory
	n := nodeWith(1, "used")
	nodes, used := []fwk.NodeInfo{n}, labels.SelectorFromSet(labels.Set{"app": "used"})
	for i := range 3 * maxSelectors {
		m.Look(nodes)
		if got := m.Counts("ns", used).At(0); got != 1 {
			t.Fatalf("%d pods, want 1", got)
		}
		m.Values("zone")
		listed := n.listed
		m.Counts("ns", used)
		if n.listed != listed {
			t.Fatal("what is in use is counted again")
		}
		m.Counts("ns", labels.SelectorFromSet(labels.Set{"app": fmt.Sprint(i)}))
		m.Values(fmt.Sprint("key-", i))
		if len(m.counts) > maxSelectors || len(m.values) > maxKeys {
			t.Fatalf("%d selectors and %d keys are remembered, want at most %d and %d", len(m.counts), len(m.values), maxSelectors, maxKeys)
		}
	}
	if n.listed > 3*maxSelectors+1 {
		t.Errorf("the pods were gone through %d times", n.listed)
	}
}

// TestValuesAreBounded: values that nodes no longer have are forgotten.
func TestValuesAreBounded(t *testing.T) {
	var m Memory
	n := nodeWith(1, "")
	nodes := []fwk.NodeInfo{n, nodeWith(2, "east")}
	for i := range 100 {
		n.generation, n.node = int64(10+i), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": fmt.Sprint(i)}}}
		m.Look(nodes)
		v := m.Values("zone")
		if v.At(0) == v.At(1) || int(v.At(0)) >= v.Numbers() || v.Numbers() > 10 {
			t.Fatalf("nodes of zones %d and east have %d and %d of %d", i, v.At(0), v.At(1), v.Numbers())
		}
	}
}

// TestSelected: labels that are compared select what the selector's own matching does.
func TestSelected(t *testing.T) {
	pods := []map[string]string{nil, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}, {"tier": "x"}, {"app": ""}}
	for _, text := range []string{"app=a", "app==a,tier=x", "app in (a)", "app in (a,b)", "app!=a", "app", "!app", "app=a,tier!=x", "app="} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s := selectedBy("ns", selector)
		for _, of := range pods {
			if got, want := s.selects(of), selector.Matches(labels.Set(of)); got != want {
				t.Errorf("%s selects %v: %t, want %t", text, of, got, want)
			}
		}
	}
}
