package simulate

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// TestProfile compares the scheduler's choice with that of a slow twin, which sorts all nodes that
// admit a pod by the order of the candidates. In a small cluster, all nodes of the best tier are
// compared again. In a large one, only the candidates are, and equal ones are chosen at random.
func TestProfile(t *testing.T) {
	own, err := StrategiesOf(strategies(), "Berth", "BerthProfile")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(6) {
		rng := rand.New(rand.NewSource(seed))
		size := []int{20, fewNodes + 60}[seed%2]
		nodes, pods := randomNodes(rng, size), randomPods(rng, 8*size)
		ground := laid(t, nodes, "sockets/restricted")
		e := &Experiment{Nodes: nodes, Pods: pods, Ground: ground}
		f, order := e.Follow(&own[1]), e.Follow(&own[0])
		var compared, refused int
		for pod := range pods {
			got := f.Choices(pod)
			wantProfile(t, f, order, pod, got)
			if len(got) == 0 {
				refused++
				continue
			}
			if !slices.Contains(order.Choices(pod), got[0]) {
				compared++
			}
			node := got[rng.Intn(len(got))]
			f.Put(node, pod)
			order.Put(node, pod)
		}
		if compared == 0 || refused == 0 {
			t.Errorf("seed %d: %d were chosen by other scores, %d refused: the test asks too little", seed, compared, refused)
		}
	}
}

// comparesAgain reports whether the strategy does not choose by its score alone, as the twins of
// other tests do. TestProfile has a twin for it.
func comparesAgain(s *Strategy) bool {
	_, compares := s.New(nil).(comparer)
	return compares
}

func randomNodes(rng *rand.Rand, n int) (out []trace.Node) {
	for i := range n {
		out = append(out, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 32000 * int64(1+rng.Intn(3)), MiB: 65536 * int64(1+rng.Intn(3)), GPUs: 4 * rng.Intn(2)})
	}
	return out
}

func randomPods(rng *rand.Rand, n int) (out []trace.Pod) {
	for i := range n {
		p := trace.Pod{Name: fmt.Sprint("p", i), MilliCPU: 1000 * int64(1+rng.Intn(20)), MiB: 1024 * int64(1+rng.Intn(20))}
		if p.GPUs = rng.Intn(3) / 2; p.GPUs > 0 {
			p.MilliGPU = trace.Thousandths
		}
		out = append(out, p)
	}
	return out
}

// wantProfile checks that the choices have the best total scores among the possible candidates.
func wantProfile(t *testing.T, f, order *Follower, pod int, got []int) {
	t.Helper()
	shape := f.of[pod]
	type taking struct {
		node  int
		score int32
		total int64
	}
	var all []taking
	for node := range f.p.cluster.Size() {
		if score := order.p.scores.score(node, shape); score != refusing {
			total := 2*int64(100-worse(score)) + f.p.beside(int32(node), shape)
			all = append(all, taking{node: node, score: score, total: total})
		}
	}
	if len(all) == 0 {
		if len(got) > 0 {
			t.Errorf("pod %d: nodes %v, and none takes it", pod, got)
		}
		return
	}
	slices.SortStableFunc(all, func(a, b taking) int { return cmp.Compare(b.score, a.score) })
	tier := orderOf(all[0].score) >> rank.ScoreBits
	all = slices.DeleteFunc(all, func(c taking) bool { return orderOf(c.score)>>rank.ScoreBits != tier })
	surely, last := all, all[len(all)-1].score
	if f.p.cluster.Size() > fewNodes && len(all) > candidates {
		last = all[candidates-1].score
		surely = all[:slices.IndexFunc(all, func(c taking) bool { return c.score == last })]
	}
	// least is the best total among the nodes that are certainly candidates, most the best of all.
	least, most := int64(-1), int64(-1)
	for i := range all {
		if i < len(surely) {
			least = max(least, all[i].total)
		}
		if all[i].score >= last {
			most = max(most, all[i].total)
		}
	}
	total := int64(-1)
	for _, node := range got {
		i := slices.IndexFunc(all, func(c taking) bool { return c.node == node })
		if i < 0 || all[i].score < last || total >= 0 && all[i].total != total {
			t.Fatalf("pod %d: node %d is among %v: want equal ones of the best tier", pod, node, got)
		}
		total = all[i].total
	}
	if total < least || total > most || len(surely) == len(all) && total != most {
		t.Errorf("pod %d: nodes %v have %d, want from %d to %d", pod, got, total, least, most)
	}
}
