package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
)

// TestRememberedAnswersAgreeWithNodes makes random changes to nodes of one kind. After each change
// it compares the answer of a Query, from the cache or not, with the node's own answer.
func TestRememberedAnswersAgreeWithNodes(t *testing.T) {
	var sum told
	for seed := range uint64(30) {
		played := playAnswers(t, rand.New(rand.NewPCG(seed, 1)))
		sum.recalled += played.recalled
		sum.ofState += played.ofState
		sum.amid += played.amid
	}
	if sum.recalled < 1000 || sum.ofState < 200 || sum.amid < 500 {
		t.Errorf("only %d answers were remembered, %d that the node had not given since it changed, %d to others of the batch", sum.recalled, sum.ofState, sum.amid)
	}
}

// told counts answers from the cache. ofState counts those that another node in the same state had
// given, amid those that were given to other pods of the same batch.
type told struct{ recalled, ofState, amid int }

type playedNode struct {
	*Node
	object   *corev1.Node
	reserved []*corev1.Pod
}

func playAnswers(t *testing.T, rng *rand.Rand) (sum told) {
	f := newFixture(t)
	profile := &Profile{Table: f.table, Scoring: defaultScoring()}
	var all []*playedNode
	for i := range 4 {
		name := fmt.Sprint("n", i)
		f.ReportSeen(f.reportOf(name))
		all = append(all, &playedNode{Node: f.table.Named(name), object: nodeObject(name)})
	}
	for step := range 60 {
		f.change(t, rng, all[rng.IntN(len(all))], fmt.Sprint("r", step))
		for range 2 {
			pod := randomPod(rng, "asked")
			for _, n := range all {
				got := f.askTwice(t, profile, pod, n, rng.IntN(4))
				sum.recalled += got.recalled
				sum.ofState += got.ofState
				sum.amid += got.amid
			}
		}
	}
	return sum
}

func defaultScoring() rank.Scoring {
	var s rank.Scoring
	s.FillIn()
	return s
}

// change makes a random change to a node.
func (f *fixture) change(t *testing.T, rng *rand.Rand, n *playedNode, name string) {
	switch rng.IntN(8) {
	case 0:
		f.ReportSeen(f.reportOf(n.name))
	case 1:
		f.clock.Step(time.Duration(rng.IntN(20)) * time.Second)
	case 2:
		n.noteHeartbeat(f.clock.Now())
	case 3:
		n.distrust(unreported)
	case 4:
		n.object = nodeObject(n.name) // the snapshot has a new object
	case 5:
		if len(n.reserved) > 0 {
			n.account.Forget(string(n.reserved[0].UID))
			n.reserved = n.reserved[1:]
		}
	default:
		pod := randomPod(rng, name)
		c := f.table.Candidate(pod, requestOf(t, pod))
		if a := n.account.Reserve(&c, new(placement.Decision)); a.OK() {
			n.reserved = append(n.reserved, pod)
		}
	}
}

// askTwice compares a query's answer and rank with the node's own, and reports whether the answer
// came from the cache. If batch is positive, the query shares answers with pods of the same batch;
// if batch is 3, the pod is loose.
func (f *fixture) askTwice(t *testing.T, profile *Profile, pod *corev1.Pod, played *playedNode, batch int) (what told) {
	t.Helper()
	n := f.table.Of(played.object)
	if n != played.Node {
		t.Fatalf("the object of %s is that of %s", played.name, n.name)
	}
	q := profile.Begin(f.table.Candidate(pod, requestOf(t, pod)), "")
	if batch > 0 {
		q.Candidate.Loose = batch == 3
		q.Share(profile)
	}
	got, had := q.Recall(n)
	own := q.answers.ofNode(n.Number())
	if why := f.table.Unusable(n); why != nil {
		if had {
			t.Fatalf("a node that cannot be relied on, %s, is remembered to say %x", why.Text, got)
		}
		return what
	}
	if !had {
		got = q.Ask(n)
	}
	if q.Candidate.Loose && (!had || n.hot.changes.Follows(q.Candidate.Created)) {
		return what // it may be an estimate, or an answer to pods that are not loose
	}
	a := n.account.View().Ask(ledger.Question{Candidate: &q.Candidate})
	a.Certain = a.Certain || q.Candidate.Loose
	want := Pack(n.hot.changes.Count(), &a)
	if want.Admits() {
		want = packAdmission(want.count(), want.Kind(), q.rankBy(n, &a))
	}
	if got != want {
		t.Fatalf("the query says %x (remembered: %t), the node %x", got, had, want)
	}
	if rank, want := q.Rank(n), rankOf(&q, n, want); rank != want {
		t.Fatalf("rank %v (remembered: %t), want %v", rank, had, want)
	}
	if had {
		what.recalled = 1
		if own.Kind() == NoAnswer || own.count() != n.hot.changes.Count() {
			what.ofState = 1
		}
		if !n.hot.changes.Follows(q.Candidate.Created) {
			what.ofState, what.amid = 0, 1
		}
	}
	return what
}

func rankOf(q *Query, n *Node, p PackedAnswer) rank.Rank {
	if !p.Admits() {
		return rank.Rank{Tier: rank.LastTier}
	}
	r := p.rank()
	r.Score = q.scoring.Busy(r.Score, n.hot.changes.InFlight())
	return r
}

func randomPod(rng *rand.Rand, name string) *corev1.Pod {
	pod := pinned(name, []int64{1, 2, 4, 7, 9, 40}[rng.IntN(6)])
	pod.CreationTimestamp = metav1.Unix(500+int64(rng.IntN(3)), 0)
	return pod
}

// TestPackedAnswersKeepTheirParts: unpacking returns every part of an answer unchanged, whatever
// the other parts are.
func TestPackedAnswersKeepTheirParts(t *testing.T) {
	for k := NoAnswer; k <= RefusesEmpty; k++ {
		p := packed(1<<32-1, k, 100, uint32(placement.TopologyAffinityError)<<8|0xff)
		reason, detail := p.Why()
		if p.count() != 1<<32-1 || p.Kind() != k || p.Wait() != 100 || reason != placement.TopologyAffinityError || detail != 0xff {
			t.Errorf("%d became %#x", k, uint64(p))
		}
		if p := packed(0, k, 0, 0); p.count() != 0 || p.Wait() != 0 || p.Kind() != k {
			t.Errorf("%d became %#x", k, uint64(p))
		}
		r := rank.Rank{Tier: rank.LastTier, Score: 100}
		if p := packAdmission(7, k, r).at(9); p.count() != 9 || p.Kind() != k || p.rank() != r {
			t.Errorf("%d became %#x", k, uint64(p))
		}
	}
}

// TestAnswersGrow: new nodes get a place in the tables, and shapes are forgotten when there are too
// many.
func TestAnswersGrow(t *testing.T) {
	var all Answers[int]
	first := all.of(1, 10)
	if again := all.of(1, first.byNumber.count); again != first {
		t.Error("a table that is large enough is made anew")
	}
	if more := all.of(1, first.byNumber.count+1); more.byNumber.count <= first.byNumber.count {
		t.Error("a table does not grow")
	}
	for i := range 3 * maxTables {
		all.of(i+1, 10)
	}
	if len(all.byKey) > maxTables {
		t.Errorf("%d tables, want at most %d", len(all.byKey), maxTables)
	}
}

// TestLooseCandidatesFillNodes: a pod without promised CPUs prefers a node that other such pods
// have begun to fill. Other pods prefer an idle node. The answers to loose pods are not cached.
func TestLooseCandidatesFillNodes(t *testing.T) {
	for _, loose := range []bool{true, false} {
		f := newFixture(t)
		profile := Profile{Table: f.table, Scoring: rank.Scoring{Certainty: 2, Fit: 2}}
		for _, name := range []string{"idle", "begun"} {
			f.ReportSeen(f.reportOf(name))
		}
		begun, idle := f.table.Named("begun"), f.table.Named("idle")
		for i, cpus := range []int64{2, 3} {
			first := f.table.Candidate(pinned("first", cpus), requestOf(t, pinned(fmt.Sprint("first", i), cpus)))
			first.Loose = true
			if a := begun.account.Reserve(&first, new(placement.Decision)); !a.OK() {
				t.Fatal(a)
			}
		}
		for _, later := range []int64{0, 1} { // created in the same second, or in the next one
			c := f.table.Candidate(pinned("x", 1), requestOf(t, pinned("x", 1)))
			c.Loose = loose
			c.Created += later
			q := profile.Begin(c, "")
			if fills := q.Rank(begun).Score > q.Rank(idle).Score; fills != loose {
				t.Errorf("loose %v: prefers the node that others come to: %v", loose, fills)
			}
			if _, known := q.Recall(begun); known && loose {
				t.Error("what a loose pod was told is remembered")
			}
		}
	}
}
