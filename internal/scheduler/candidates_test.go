package scheduler

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// TestCandidatesAreTheBest: whatever pods the nodes have and however they are scored, the
// candidates are the nodes that admit the pod, the best first. The test compares with asking every
// node. If the number of NUMA nodes comes first, most nodes are not asked for the first few
// candidates.
func TestCandidatesAreTheBest(t *testing.T) {
	for seed, scoring := range []rank.Scoring{
		{},
		{Strategy: rank.LeastAllocated},
		{First: []rank.Criterion{rank.Policy, rank.NUMANodes, rank.Devices}},
		{First: []rank.Criterion{rank.Devices, rank.NUMANodes}, Fit: 5, Distance: 1},
		{First: []rank.Criterion{}},
		{Formula: rank.Volcano},
	} {
		t.Run(fmt.Sprint(scoring), func(t *testing.T) {
			c := newCluster(t, 210, uint64(seed))
			scoring.FillIn()
			c.profile.Scoring = scoring
			asked, nodes := 0, 0
			for range 8 {
				c.fill()
				forget := c.onTheWay()
				for range 8 {
					asked += c.compare(c.anyPod())
					nodes += len(c.nodes)
				}
				forget()
			}
			if t.Logf("%d of %d were asked for the first few", asked, nodes); seed == 0 && asked > nodes/2 {
				t.Errorf("%d of %d nodes were asked for the first few", asked, nodes)
			}
		})
	}
}

// fill places pods on random nodes, and ends others.
func (c *cluster) fill() {
	for range 60 {
		request := requestOf(c.TB, c.pod([]int64{1, 2, 3, 4, 8, 12, 16, 24}[c.rng.IntN(8)], []int64{0, 0, 0, 0, 1, 2}[c.rng.IntN(6)]))
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		if v := placement.Admit(n.state, request); v.OK() {
			c.admitOn(n, request)
		}
		if n := c.nodes[c.rng.IntN(len(c.nodes))]; len(n.pods) > 2 {
			c.end(n, c.rng.IntN(len(n.pods)), 0)
		}
	}
}

// onTheWay puts pods in flight to some nodes, and returns a function that undoes this.
func (c *cluster) onTheWay() (forget func()) {
	var back []func()
	for range 10 {
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		back = append(back, c.send(n, int64(1+c.rng.IntN(4)), int64(600+c.rng.IntN(2))))
	}
	return func() {
		for _, forget := range back {
			forget()
		}
	}
}

// send puts a pod in flight to the node, and returns a function that undoes this.
func (c *cluster) send(n *clusterNode, cpus, created int64) (forget func()) {
	pod, account := c.pod(cpus, 0), c.table.Named(n.object.Name).Account()
	candidate := c.table.Candidate(pod, requestOf(c.TB, pod))
	candidate.Created = created
	account.Reserve(&candidate, new(placement.Decision))
	return func() { account.Forget(string(pod.UID)) }
}

// anyPod returns a pod of a shape that is mostly new, created before or after the pods in flight.
func (c *cluster) anyPod() *corev1.Pod {
	p := c.pod(int64(1+c.rng.IntN(40)), []int64{0, 0, 0, 1, 2}[c.rng.IntN(5)])
	p.CreationTimestamp = metav1.Unix(int64(600+c.rng.IntN(3)), 0)
	own := p.Spec.Containers[0]
	for i := range c.rng.IntN(3) {
		more := corev1.Container{Name: fmt.Sprint("more-", i), Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity([]int64{500, 1000, 3000}[c.rng.IntN(3)], resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Mi")}}}
		switch c.rng.IntN(3) {
		case 0:
			p.Spec.InitContainers = append(p.Spec.InitContainers, more)
		case 1:
			more.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, more)
		default:
			p.Spec.Containers = append(p.Spec.Containers, more)
		}
	}
	if c.rng.IntN(6) == 0 {
		own.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1500m")
	}
	return p
}

// compare compares candidates with the answers of all nodes, and returns how many nodes were asked
// for the first few.
func (c *cluster) compare(pod *corev1.Pod) (asked int) {
	c.Helper()
	request := requestOf(c.TB, pod)
	cyc := c.attempt(pod, request)
	cyc.way.(*alone).patient = false
	state := newCycleData()
	state.Write(cycleKey, cyc)
	infos := make([]fwk.NodeInfo, len(c.nodes))
	for i, n := range c.nodes {
		infos[i] = n.infoOf
	}
	candidates := CandidatesOf(state, pod, infos, 0, nil)
	if candidates == nil {
		c.Fatal("no candidates")
	}
	var named []fwk.NodeInfo
	for few := candidates.Next(0); len(few) > 0; few = candidates.Next(0) {
		if named == nil {
			for _, n := range c.nodes {
				if _, known := cyc.query.Recall(c.table.Of(n.object)); known {
					asked++
				}
			}
		}
		named = append(named, few...)
	}
	// The slow query has no cache.
	slow := c.table.Candidate(pod, request)
	slow.Shape = 0
	want := map[string]uint32{}
	var orders []uint32
	for _, n := range c.nodes {
		a := c.table.Of(n.object).Account().View().Sample(ledger.Question{Candidate: &slow, Estimate: c.table.Large()})
		if a.Answer.OK() {
			order := cyc.query.OrderOf(c.table.Of(n.object), cyc.query.Ask(c.table.Of(n.object)))
			want[n.object.Name] = order
			orders = append(orders, order)
		}
	}
	slices.Sort(orders)
	if len(named) != len(orders) {
		c.Fatalf("%s: %d candidates, %d nodes take it", pod.Name, len(named), len(orders))
	}
	for i, info := range named {
		if order, takes := want[info.Node().Name]; !takes || order != orders[i] {
			c.Fatalf("%s: candidate %d is %s of order %#x (takes: %t), want %#x", pod.Name, i, info.Node().Name, order, takes, orders[i])
		}
	}
	return asked
}

// search begins a search among the nodes for a pod with a number of CPUs, created in the second of
// the pods in flight.
func (c *cluster) search(cpus int64, change ...func(*corev1.Pod)) (*placement.Request, *corev1.Pod, *Candidates) {
	pod := c.pod(cpus, 0)
	for _, also := range change {
		also(pod)
	}
	pod.CreationTimestamp = metav1.Unix(600, 0)
	request := requestOf(c.TB, pod)
	state := newCycleData()
	state.Write(cycleKey, c.attempt(pod, request))
	infos := make([]fwk.NodeInfo, len(c.nodes))
	for i, n := range c.nodes {
		infos[i] = n.infoOf
	}
	return request, pod, CandidatesOf(state, pod, infos, 0, nil)
}

// TestSearchesBorrow: a borrowed list is returned, without nodes, when the search ends. A search
// that does not divide the nodes does not borrow it.
func TestSearchesBorrow(t *testing.T) {
	c := newCluster(t, 120, 43)
	_, _, divided := c.search(1, func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liked", Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	})
	lent, taking := divided.space, divided.Taking()
	if len(taking) == 0 {
		t.Fatal("no node is taking")
	}
	for range 2 {
		divided.Done()
	}
	if divided.Taking() != nil || &lent.taking[0] != &taking[0] || slices.ContainsFunc(lent.taking, func(info fwk.NodeInfo) bool { return info != nil }) {
		t.Error("what was taking did not go back, or has nodes in it")
	}
	_, _, undivided := c.search(1)
	undivided.space = &space{taking: make([]fwk.NodeInfo, 3)}
	lent = undivided.space
	if undivided.Done(); len(lent.taking) != 3 || len(lent.classes) != 1 {
		t.Errorf("%d classes and room for %d nodes went back, want 1 and 3", len(lent.classes), len(lent.taking))
	}
}

// TestEstimatesAreConfirmed: pods of the same second are in flight to most nodes of a large
// cluster. Reserve admits the pod on each candidate. For nodes with a wrong estimate, Filter
// reports that they wait.
func TestEstimatesAreConfirmed(t *testing.T) {
	c := newCluster(t, 120, 41)
	for i := 0; !c.table.Large(); i++ {
		c.table.Named(fmt.Sprint("other", i))
	}
	empty, sent := c.nodes[:10], c.nodes[10:]
	for _, n := range sent {
		c.send(n, int64(1+c.rng.IntN(4)), 600)
	}
	named, waiting := 0, 0
	for i := range 40 {
		if i == 20 {
			for _, n := range empty { // now to all
				c.send(n, 1, 600)
			}
		}
		request, pod, candidates := c.search(int64(1 + i%8))
		few := candidates.Next(0)
		if len(few) == 0 && i < 20 {
			t.Fatalf("pod %d: no candidates, and 10 nodes are empty", i)
		}
		for j, info := range few {
			candidate, account := c.table.Candidate(pod, request), c.table.Of(info.Node()).Account()
			if a := account.Reserve(&candidate, new(placement.Decision)); !a.OK() {
				t.Fatalf("pod %d: candidate %d, %s, says %+v in Reserve", i, j, info.Node().Name, a)
			}
			if named++; j > 0 || i >= 20 {
				account.Forget(request.UID)
			}
		}
		for len(candidates.classes[0]) > 0 {
			candidates.Next(0)
		}
		for _, info := range candidates.infos {
			if status := candidates.Waits(t.Context(), info); status != nil {
				waiting++
				if status.Code() != fwk.Pending || status.Plugin() != Name {
					t.Fatalf("pod %d waits for %s: %v of %q", i, info.Node().Name, status, status.Plugin())
				}
				if filter := candidates.way.filter(t.Context(), candidates.cycle, info); filter.Message() != status.Message() {
					t.Fatalf("pod %d waits for %s: %q, and Filter says %q", i, info.Node().Name, status.Message(), filter.Message())
				}
			}
		}
	}
	t.Logf("%d named, %d waits", named, waiting)
	if named < 40 || waiting < 1000 {
		t.Errorf("%d named and %d waits: the test shows little", named, waiting)
	}
}

// TestEstimatesHaveToDo: if very many nodes refuse after a full check, Next stops checking, and
// Reserve decides.
func TestEstimatesHaveToDo(t *testing.T) {
	c := newCluster(t, 300, 42)
	for _, n := range c.nodes {
		c.send(n, 1, 600)
	}
	_, _, candidates := c.search(1)
	if few := candidates.Next(0); len(few) != fewConfirmed || candidates.unconfirmed != maxUnconfirmed {
		t.Errorf("%d named after %d refused, want %d and %d", len(few), candidates.unconfirmed, fewConfirmed, maxUnconfirmed)
	}
}
