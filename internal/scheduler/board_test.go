package scheduler

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// cycleData is as much of a cycle's state as a plugin without a framework needs.
type cycleData struct {
	fwk.CycleState
	held map[fwk.StateKey]fwk.StateData
}

func newCycleData() *cycleData { return &cycleData{held: map[fwk.StateKey]fwk.StateData{}} }

func (c *cycleData) Write(key fwk.StateKey, d fwk.StateData) { c.held[key] = d }
func (c *cycleData) Read(key fwk.StateKey) (fwk.StateData, error) {
	if d, ok := c.held[key]; ok {
		return d, nil
	}
	return nil, fwk.ErrNotFound
}

// infoOf is as much of a NodeInfo as the plugin needs.
type infoOf struct {
	fwk.NodeInfo
	object *corev1.Node
}

func (i infoOf) Node() *corev1.Node { return i.object }

func nodeObject(name string) infoOf {
	return infoOf{object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// TestBoardAgreesWithNode goes through random changes of a node and asks after each what Filter and Score say, from the
// board or not, and what the node itself says.
func TestBoardAgreesWithNode(t *testing.T) {
	var recalled int
	for seed := range uint64(30) {
		recalled += playBoard(t, rand.New(rand.NewPCG(seed, 1)))
	}
	if recalled < 1000 {
		t.Errorf("only %d answers came from the board", recalled)
	}
}

func playBoard(t *testing.T, rng *rand.Rand) (recalled int) {
	f := newFixture(t)
	f.feed.topologySeen(f.topology())
	info, n := nodeObject("n"), f.nodes.get("n")
	var reserved []*corev1.Pod
	for step := range 60 {
		switch rng.IntN(8) {
		case 0:
			f.feed.topologySeen(f.topology())
		case 1:
			f.clock.Step(time.Duration(rng.IntN(40)) * time.Second)
		case 2:
			n.hear(f.clock.Now())
		case 3:
			n.distrust(noReport)
		case 4:
			info = nodeObject("n") // the snapshot has another object
		case 5:
			if len(reserved) > 0 {
				n.Forget(uidOf(reserved[0]))
				reserved = reserved[1:]
			}
		default:
			pod := boardPod(rng, fmt.Sprint("r", step))
			c := f.candidate(pod, requestOf(t, pod))
			if a := n.Reserve(&c, new(placement.Decision)); a.OK() {
				reserved = append(reserved, pod)
			}
		}
		for range 4 {
			recalled += f.askTwice(t, boardPod(rng, "asked"), info, n)
		}
	}
	return recalled
}

// askTwice compares Filter and Score with the node's own answer, and says whether the board had it.
func (f *fixture) askTwice(t *testing.T, pod *corev1.Pod, info infoOf, n *node) int {
	t.Helper()
	state := newCycleData()
	c := f.attempt(pod, requestOf(t, pod), wire.PodPolicy{})
	c.patient = false
	state.Write(cycleKey, c)
	_, had := c.recall(n, f.args.StaleAfter.Duration)
	got, score := f.Filter(t.Context(), state, pod, info), int64(-1)
	want := wantedStatus(f, c, n)
	if got.Code() != want.Code() || got.Message() != want.Message() {
		t.Fatalf("Filter says %v (from the board: %t), the node %v", got, had, want)
	}
	if got.IsSuccess() {
		a := n.Admit(&c.Candidate)
		score, _ = f.Score(t.Context(), state, pod, info)
		if want := f.args.Scoring.score(&a, n); score != want {
			t.Fatalf("Score says %d (from the board: %t), want %d", score, had, want)
		}
	}
	if had {
		return 1
	}
	return 0
}

func wantedStatus(f *fixture, c *cycle, n *node) *fwk.Status {
	if why := n.refusal(f.clock.Now(), f.args.StaleAfter.Duration); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	a := n.Admit(&c.Candidate)
	return statusOf(&a)
}

func boardPod(rng *rand.Rand, name string) *corev1.Pod {
	pod := pinned(name, []int64{1, 2, 4, 7, 9, 40}[rng.IntN(6)])
	pod.CreationTimestamp = metav1.Unix(500+int64(rng.IntN(3)), 0)
	return pod
}

// TestBoardTellsSayingsApart keeps every field of a word apart from the others.
func TestBoardTellsSayingsApart(t *testing.T) {
	for _, s := range []saying{saysNothing, saysYes, saysYesRoughly, saysWait, saysNo, saysNever} {
		v := placement.Verdict{Reason: placement.TopologyAffinityError, Detail: 0xff}
		w := newWord(1<<32-1, s, fwk.MaxScore, &v)
		if w.beat() != 1<<32-1 || w.saying() != s || w.score() != fwk.MaxScore || placement.Detail(w) != 0xff || placement.Reason(w>>8) != placement.TopologyAffinityError {
			t.Errorf("%d became %#x", s, uint64(w))
		}
		if w := newWord(0, s, 0, new(placement.Verdict)); w.beat() != 0 || w.score() != 0 || w.saying() != s {
			t.Errorf("%d became %#x", s, uint64(w))
		}
	}
}

// TestSeats finds nodes by objects that come and go, from many goroutines.
func TestSeats(t *testing.T) {
	const count = 300
	var n nodes
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range 20 {
				objects := make([]*corev1.Node, count)
				for i := range objects {
					objects[i] = nodeObject(fmt.Sprint("n", i)).object
				}
				for i := range 2 * count {
					o := objects[(i*7+g)%count]
					if got := n.of(o); got.name != o.Name {
						t.Errorf("round %d: %s is %s", round, o.Name, got.name)
					}
				}
			}
		})
	}
	wg.Wait()
	if size := len(*n.seats.table.Load()); size > 16*count {
		t.Errorf("%d seats for %d nodes", size, count)
	}
	if got := n.count.Load(); got != count {
		t.Errorf("%d nodes, want %d", got, count)
	}
}

// TestBoardsGrow gives nodes that come later a place, and forgets shapes when there are too many.
func TestBoardsGrow(t *testing.T) {
	var b boards
	first := b.of(1, 10)
	if again := b.of(1, len(first.words)); again != first {
		t.Error("a board that is large enough is made anew")
	}
	if more := b.of(1, len(first.words)+1); len(more.words) <= len(first.words) {
		t.Error("a board does not grow")
	}
	for i := range 3 * maxBoards {
		b.of(ledger.Shape(i+1), 10)
	}
	if len(b.byShape) > maxBoards {
		t.Errorf("%d boards, want at most %d", len(b.byShape), maxBoards)
	}
}

// TestReserveHasTheLastWord: on a large cluster Filter only estimates where pods of the same second are in flight. A pod
// that Reserve refuses tries again at once, and then Filter knows.
func TestReserveHasTheLastWord(t *testing.T) {
	f := newFixture(t)
	f.feed.topologySeen(f.topology())
	for i := range manyNodes {
		f.nodes.get(fmt.Sprint("other", i))
	}
	first, second, info := pinned("b", 4), pinned("a", 4), nodeObject("n")
	n := f.nodes.get("n")
	c := f.candidate(first, requestOf(t, first))
	n.Node.Reserve(&c, new(placement.Decision))
	if _, err := n.Post(uidOf(first), new(placement.Decision)); err != nil {
		t.Fatal(err)
	}
	try := func() (filtered, reserved *fwk.Status) {
		state := newCycleData()
		state.Write(cycleKey, f.attempt(second, requestOf(t, second), wire.PodPolicy{}))
		if filtered = f.Filter(t.Context(), state, second, info); filtered.IsSuccess() {
			if reserved = f.Reserve(t.Context(), state, second, "n"); !reserved.IsSuccess() {
				f.Unreserve(t.Context(), state, second, "n")
			}
		}
		return filtered, reserved
	}
	if filtered, reserved := try(); !filtered.IsSuccess() || reserved.Code() != fwk.Pending || f.woken["a"] == 0 {
		t.Fatalf("Filter says %v, Reserve %v, woken %v: want an estimate, Pending and another try", filtered, reserved, f.woken)
	}
	if filtered, _ := try(); filtered.Code() != fwk.Pending {
		t.Errorf("Filter says %v the second time, want Pending", filtered)
	}
}

func requestOf(t testing.TB, pod *corev1.Pod) *placement.Request {
	t.Helper()
	r, err := wire.Request(pod)
	if err != nil {
		t.Fatal(err)
	}
	r.UID = string(pod.UID)
	return &r
}
