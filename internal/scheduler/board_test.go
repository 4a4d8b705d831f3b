package scheduler

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
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

// TestBoardAgreesWithNode goes through random changes of nodes of one kind and asks after each what
// Filter and Score say, from the board or not, and what the node itself says.
func TestBoardAgreesWithNode(t *testing.T) {
	var sum told
	for seed := range uint64(30) {
		played := playBoard(t, rand.New(rand.NewPCG(seed, 1)))
		sum.recalled += played.recalled
		sum.common += played.common
	}
	if sum.recalled < 1000 || sum.common < 200 {
		t.Errorf("only %d answers came from the board, and %d that the node had not given since it changed", sum.recalled, sum.common)
	}
}

// told counts answers that came from the board, and those of another node.
type told struct{ recalled, common int }

type boardNode struct {
	*node
	info     infoOf
	reserved []*corev1.Pod
}

func playBoard(t *testing.T, rng *rand.Rand) (sum told) {
	f := newFixture(t)
	var all []*boardNode
	for i := range 4 {
		name := fmt.Sprint("n", i)
		f.feed.topologySeen(f.reportOf(name))
		all = append(all, &boardNode{node: f.nodes.get(name), info: nodeObject(name)})
	}
	for step := range 60 {
		f.change(t, rng, all[rng.IntN(len(all))], fmt.Sprint("r", step))
		for range 2 {
			pod := boardPod(rng, "asked")
			for _, n := range all {
				got := f.askTwice(t, pod, n.info, n.node)
				sum.recalled += got.recalled
				sum.common += got.common
			}
		}
	}
	return sum
}

// reportOf is a report of a node by that name.
func (f *fixture) reportOf(name string) *v1alpha1.NodeTopology {
	nt := f.topology()
	nt.Name, nt.UID = name, types.UID(name)
	return nt
}

// change lets something happen to a node.
func (f *fixture) change(t *testing.T, rng *rand.Rand, n *boardNode, name string) {
	switch rng.IntN(8) {
	case 0:
		f.feed.topologySeen(f.reportOf(n.name))
	case 1:
		f.clock.Step(time.Duration(rng.IntN(20)) * time.Second)
	case 2:
		n.hear(f.clock.Now())
	case 3:
		n.distrust(unreported)
	case 4:
		n.info = nodeObject(n.name) // the snapshot has another object
	case 5:
		if len(n.reserved) > 0 {
			n.Forget(uidOf(n.reserved[0]))
			n.reserved = n.reserved[1:]
		}
	default:
		pod := boardPod(rng, name)
		c := f.candidate(pod, requestOf(t, pod))
		if a := n.Reserve(&c, new(placement.Decision)); a.OK() {
			n.reserved = append(n.reserved, pod)
		}
	}
}

// askTwice compares Filter and Score with the node's own answer, and says whether the board had it.
func (f *fixture) askTwice(t *testing.T, pod *corev1.Pod, info infoOf, n *node) (what told) {
	t.Helper()
	state := newCycleData()
	c := f.attempt(pod, requestOf(t, pod))
	c.patient = false
	state.Write(cycleKey, c)
	_, had := c.recall(n, f.args.StaleAfter.Duration)
	own := word(0)
	if n.number < len(c.board.words) {
		own = word(c.board.words[n.number].Load())
	}
	got, score := f.Filter(t.Context(), state, pod, info), int64(-1)
	want := wantedStatus(f, c, n)
	if got.Code() != want.Code() || got.Message() != want.Message() {
		t.Fatalf("Filter says %v (from the board: %t), the node %v", got, had, want)
	}
	if got.IsSuccess() {
		a := n.Ask(ledger.Question{Candidate: &c.Candidate})
		score, _ = f.Score(t.Context(), state, pod, info)
		want := f.rank(c, n, &a).Score
		if !n.Quiet() {
			want = f.args.Scoring.Busy(want)
		}
		if want := int64(want); score != want {
			t.Fatalf("Score says %d (from the board: %t), want %d", score, had, want)
		}
	}
	if had {
		what.recalled = 1
		if own.saying() == saysNothing || own.beat() != n.Count() {
			what.common = 1
		}
	}
	return what
}

func wantedStatus(f *fixture, c *cycle, n *node) *fwk.Status {
	if why := f.refusal(n.name); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	a := n.Ask(ledger.Question{Candidate: &c.Candidate})
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

// TestReserveHasTheLastWord: on a large cluster Filter only estimates where pods of the same second
// are in flight. A pod that Reserve refuses tries again at once, and then Filter knows.
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
		state.Write(cycleKey, f.attempt(second, requestOf(t, second)))
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
	ask, err := wire.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &ask.Request
}
