package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/placement"
)

// TestAPodRefusedByTheAnswerOfAnotherNodeIsWoken: n was asked when it had room. When it has none,
// the cached answer of another node is used for it. Then n has room again.
func TestAPodRefusedByTheAnswerOfAnotherNodeIsWoken(t *testing.T) {
	f := newFixture(t)
	seven := pinned("seven", 7)
	f.admit(seven) // on both nodes; the other socket has 8 CPUs
	for _, name := range []string{"n", "m"} {
		f.feed.ReportSeen(f.reportOf(name))
		f.feed.PodSeen(on(seven.DeepCopy(), name), false)
	}
	woken := f.wakes()
	n, m := f.table.Named("n"), f.table.Named("m")
	eight := func(name string, created int64) *corev1.Pod {
		p := pinned(name, 8)
		p.CreationTimestamp = metav1.Unix(created, 0)
		return p
	}
	filter := func(p *corev1.Pod) (takes []bool) {
		state := newCycleData()
		f.PreFilter(t.Context(), state, p, nil)
		for _, each := range []*nodes.Node{m, n} {
			takes = append(takes, statusOf(cycleOf(state).query.Ask(each), false).IsSuccess())
		}
		return takes
	}
	first, second := eight("first", 600), eight("second", 601)
	if got := filter(first); !got[0] || !got[1] {
		t.Fatalf("empty sockets: %v", got)
	}
	m.Account().Reserve(f.wait(first), new(placement.Decision))
	f.waiters.Done(uidOf(first))
	n.Account().View().Ask(ledger.Question{Candidate: f.wait(second)})
	n.Account().Reserve(f.wait(second), new(placement.Decision))
	f.waiters.Done(uidOf(second))
	third := eight("third", 700)
	if got := filter(third); got[0] || got[1] {
		t.Fatalf("full nodes: %v", got)
	}
	f.blame(third, nil, []*nodes.Node{n, m})
	n.Account().Forget(uidOf(second))
	f.waiters.NodeChanged(n.Account())
	f.waiters.WakeOne(uidOf(third)) // marks the end
	if <-woken; len(woken) != 1 {
		t.Error("nobody was woken although n has room")
	}
	for len(woken) > 0 {
		<-woken
	}
	f.feed.ReportSeen(f.reportOf("n"))
	if len(woken) > 0 {
		t.Errorf("%v woken by a report that has nothing new", <-woken)
	}
}
