package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	raceOperations = flag.Int("race-operations", 200, "pods created and deleted by TestRaceAtRandom")
	raceSeed       = flag.Uint64("race-seed", 1, "seed of TestRaceAtRandom")
)

// TestRaceAtRandom creates and deletes pods on a real API server and hollow nodes. Meanwhile
// watches are cut, requests and answers are lost, repeated and late, pods change during a Binding,
// and schedulers are killed. No pod is refused, no exact promise is broken, and no CPU is held
// twice. At the end every pod runs, because all fit, and nothing is left.
func TestRaceAtRandom(t *testing.T) {
	t.Parallel()
	t.Logf("%d operations of seed %d: repeat with -race-operations=%d -race-seed=%d", *raceOperations, *raceSeed, *raceOperations, *raceSeed)
	c := newHollowCluster(t, 3)
	c.wire.meddle = c.meddle
	g := &gambler{c: c, rng: rand.New(rand.NewPCG(*raceSeed, 1))}
	g.bets()
	for i := range *raceOperations {
		g.step(i)
		time.Sleep(time.Duration(g.rng.IntN(150)) * time.Millisecond) // the pace of the load, not a synchronisation
	}
	g.calm()
	c.awaitRunning(g.live...)
	sum := c.demandKept()
	// On a slow machine half of the pods are deleted before a kubelet sees them.
	if least := *raceOperations / 10; sum.promised < least || sum.exact < least/4 {
		t.Errorf("%d promises, %d of them exact: too few to mean anything", sum.promised, sum.exact)
	}
	c.demandNoneBroken()
	c.clean()
	c.demandAllRoom()
}

// gambler carries out random operations and faults.
type gambler struct {
	c    *hollowCluster
	rng  *rand.Rand
	live []string
	size map[string]int
	load int
}

// bets makes every wire faulty from now on.
func (g *gambler) bets() {
	odds := func(seed uint64, hits func(*http.Request) bool, faults ...fault) func(*http.Request) fault {
		rng := rand.New(rand.NewPCG(*raceSeed, seed))
		return func(r *http.Request) fault {
			if r.URL.Query().Get("watch") != "" || !hits(r) {
				return noFault
			}
			if i := rng.IntN(3 * len(faults)); i < len(faults) {
				return faults[i]
			}
			return noFault
		}
	}
	writes := func(r *http.Request) bool { return r.Method != http.MethodGet }
	g.c.wire.set(odds(2, isBinding, lostRequest, lostAnswer, lateAnswer, lateRequest, repeated, changedPod))
	for i, n := range g.c.nodes {
		n.kubelet().set(odds(uint64(10+i), writes, lateAnswer, lateRequest))
		n.agent().set(odds(uint64(20+i), writes, lostAnswer, lateRequest, noRequest, repeated))
	}
}

// calm ends the faults.
func (g *gambler) calm() {
	sound := func(*http.Request) fault { return noFault }
	g.c.wire.set(sound)
	for _, n := range g.c.nodes {
		n.kubelet().set(sound)
		n.agent().set(sound)
	}
}

func (g *gambler) step(i int) {
	switch n := g.rng.IntN(60); {
	case i%300 == 150:
		g.c.demandNoneBroken()
		g.c.restartScheduler(nil)
	case n == 0:
		g.c.wire.cut()
	case n == 1:
		g.c.nodes[g.rng.IntN(len(g.c.nodes))].kubelet().cut()
	case n == 2:
		g.c.nodes[g.rng.IntN(len(g.c.nodes))].agent().cut()
	}
	// With three fifths full, NUMA nodes with room for 4 CPUs remain in any order of arrival.
	if cpus := 1 + g.rng.IntN(4); g.load+cpus <= 8*len(g.c.nodes) && g.rng.IntN(5) > 0 {
		g.create(fmt.Sprint("c", i), cpus)
	} else if len(g.live) > 0 {
		g.delete(g.rng.IntN((len(g.live) + 1) / 2)) // mostly a running pod
	}
}

func (g *gambler) create(name string, cpus int) {
	p := pinnedPod(name, "", fmt.Sprint(cpus))
	p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	g.c.create(p)
	if g.size == nil {
		g.size = map[string]int{}
	}
	g.live, g.size[name] = append(g.live, name), cpus
	g.load += cpus
}

// delete deletes a pod, sometimes by force. Then the API forgets it at once, but its kubelet does
// not.
func (g *gambler) delete(k int) {
	name := g.live[k]
	var grace *int64
	if g.rng.IntN(6) == 0 {
		grace = new(int64)
	}
	g.c.delete(name, grace)
	g.load -= g.size[name]
	g.live = append(g.live[:k], g.live[k+1:]...)
}

// meddle changes the pod of a Binding, so that the Binding has an old resource version.
func (c *hollowCluster) meddle(r *http.Request) {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"}}}`, time.Now().UnixNano())
	_, _ = c.Client.CoreV1().Pods("default").Patch(r.Context(), podOfBinding(r), types.MergePatchType, patch, metav1.PatchOptions{}) // the pod may be gone
}

// demandNoneBroken fails the test if the running scheduler counts a broken promise that is not
// contended.
func (c *hollowCluster) demandNoneBroken() {
	c.Helper()
	m, err := c.sched.metrics()
	c.must(err)
	for _, outcome := range []string{"refused", "mispredicted"} {
		if n, ok := m[fmt.Sprintf("berth_scheduler_promises_total{outcome=%q}", outcome)]; !ok || n != 0 {
			c.Errorf("the scheduler counts %v promises %s (%t)", n, outcome, ok)
		}
	}
}

// demandAllRoom fills every NUMA node to the last CPU, which shows that no CPU is held.
func (c *hollowCluster) demandAllRoom() {
	c.Helper()
	var names []string
	for _, n := range c.nodes {
		for i, cpus := range []string{"6", "8"} { // one core of the first NUMA node is reserved
			name := fmt.Sprint("all-", n.spec.Name, i)
			c.create(onNode(pinnedPod(name, "", cpus), n.spec.Name))
			names = append(names, name)
		}
	}
	c.awaitRunning(names...)
	c.demandKept()
	for _, n := range c.nodes {
		c.await("books that hold two pods", func([]corev1.Pod) bool { return len(n.held()) == 2 })
	}
	c.clean()
}
