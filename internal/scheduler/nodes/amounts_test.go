package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

// Kinds of reports that have only amounts.
const (
	numatopology = iota
	zonesOfNode
)

// amountsFixture is a feed of nodes that only exporters of other projects report.
type amountsFixture struct {
	*fixture
	bound map[string][]*corev1.Pod
}

func newAmountsFixture(t *testing.T) *amountsFixture {
	f := &amountsFixture{newFixture(t), map[string][]*corev1.Pod{}}
	f.Beside = func(node string) *wire.Beside { return nodestate.BesideOf(nil, f.bound[node]) }
	return f
}

// zones returns a report of node n, written after seconds after the clock's start. It has two zones
// of seven CPUs for pods, of which free0 and free1 are free.
func (f *amountsFixture) zones(after int64, free0, free1 string) *nrt.NodeResourceTopology {
	zone := func(name, free string) nrt.Zone {
		return nrt.Zone{Name: name, Type: "Node", Resources: nrt.ResourceInfoList{{
			Name: "cpu", Capacity: resource.MustParse("8"), Allocatable: resource.MustParse("7"), Available: resource.MustParse(free),
		}}}
	}
	return &nrt.NodeResourceTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "zones", CreationTimestamp: metav1.Unix(1000+after, 0)},
		Attributes: nrt.AttributeList{{Name: "topologyManagerPolicy", Value: "single-numa-node"}},
		Zones:      nrt.ZoneList{zone("node-0", free0), zone("node-1", free1)},
	}
}

// see makes the API show a pod on node n. Its kubelet started it so many seconds after the clock's
// start; a negative number means that it did not.
func (f *amountsFixture) see(pod *corev1.Pod, started int64) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = "n"
	if started >= 0 {
		at := metav1.Unix(1000+started, 0)
		pod.Status.StartTime = &at
	}
	f.unbind(pod)
	f.bound["n"] = append(f.bound["n"], pod)
	f.PodSeen(pod, false)
}

func (f *amountsFixture) unbind(pod *corev1.Pod) {
	var left []*corev1.Pod
	for _, p := range f.bound["n"] {
		if p.UID != pod.UID {
			left = append(left, p)
		}
	}
	f.bound["n"] = left
}

// largest returns how many CPUs the node gives a pod at most; -1 if the node is not reliable.
func (f *amountsFixture) largest() int64 {
	f.t.Helper()
	n := f.table.Named("n")
	if f.table.Unusable(n) != nil {
		return -1
	}
	largest := int64(0)
	for cpus := range int64(16) {
		r := requestOf(f.t, pinned("q", cpus+1))
		a := n.Account().View().Ask(ledger.Question{Candidate: &ledger.Candidate{Request: r, Created: 1}})
		if a.Exact {
			f.t.Errorf("%d CPUs: certain", cpus+1)
		}
		if a.OK() {
			largest = cpus + 1
		}
	}
	return largest
}

func (f *amountsFixture) want(when string, cpus int64) {
	f.t.Helper()
	if got := f.largest(); got != cpus {
		f.t.Errorf("%s: the largest pod has %d CPUs, want %d", when, got, cpus)
	}
}

// TestAmounts follows a node that only NodeResourceTopology reports. Each pod is charged once,
// whether the report counts it or not, and no charge stays.
func TestAmounts(t *testing.T) {
	f := newAmountsFixture(t)
	f.want("unknown", -1)
	f.amountsSeen(zonesOfNode, f.zones(0, "7", "7"))
	f.want("empty", 7)
	f.see(pinned("a", 5), -1)
	f.see(pinned("b", 5), -1)
	f.want("two bound", 2)
	f.see(pinned("a", 5), 3)
	f.want("one of them taken in after the report", 2)
	f.amountsSeen(zonesOfNode, f.zones(4, "2", "7"))
	f.want("the report counts it", 2)
	f.amountsSeen(zonesOfNode, f.zones(6, "2", "2"))
	f.want("the report counts both, of which one has not been told", 2)
	f.see(pinned("b", 5), 5)
	f.want("now it has", 2)
	over := pinned("b", 5)
	over.Status.Phase = corev1.PodSucceeded
	f.see(over, 5)
	f.want("one is over, and in the report", 2)
	f.amountsSeen(zonesOfNode, f.zones(8, "2", "7"))
	f.want("and no more", 7)
	f.clock.Step(time.Hour)
	f.want("nobody has to give signs of life", 7)
	f.amountsGone(zonesOfNode, "n")
	f.want("without a report", -1)
}

// TestAmountsAfterAPodThatNoReportCounts: a pod starts and ends between two reports, or never gets
// to its kubelet.
func TestAmountsAfterAPodThatNoReportCounts(t *testing.T) {
	f := newAmountsFixture(t)
	f.amountsSeen(zonesOfNode, f.zones(0, "7", "7"))
	refused := pinned("a", 7)
	f.see(refused, -1)
	f.see(pinned("b", 6), -1)
	f.want("both are charged", 1)
	refused.Status.Phase = corev1.PodFailed
	f.see(refused, 2)
	f.see(refused, 2)
	f.want("its kubelet refused the one", 7)
	gone := on(pinned("b", 6), "n")
	f.unbind(gone)
	f.PodGone(gone)
	f.want("the other was deleted this moment", 7)
	f.see(pinned("c", 7), -1)
	f.want("so its place is not given away", 1)
	told := make(chan bool, 1)
	f.Changed = func() { told <- true }
	f.clock.Step(f.SettleAfter)
	<-told
	f.want("and is after a while", 7)
}

// TestAnAgentWinsOverAmounts: an agent begins to report, becomes silent, and is removed.
func TestAnAgentWinsOverAmounts(t *testing.T) {
	f := newAmountsFixture(t)
	f.amountsSeen(zonesOfNode, f.zones(0, "3", "3"))
	f.want("on amounts", 3)
	for range 2 {
		f.ReportSeen(f.reportOf("n"))
		if got := f.largestExact(); got != 8 {
			t.Errorf("on the agent's report: %d", got)
		}
		f.amountsSeen(zonesOfNode, f.zones(1, "2", "2"))
		f.see(pinned("a", 4), 1)
		if got := f.largestExact(); got != 8 {
			t.Errorf("amounts change nothing: %d", got)
		}
		f.clock.Step(2 * time.Minute)
		f.want("amounts do not stand in for a silent agent", -1)
		f.ReportGone("n")
		f.amountsSeen(zonesOfNode, f.zones(2, "3", "3"))
		f.want("on amounts again", 3)
		f.unbind(pinned("a", 4))
		f.PodGone(on(pinned("a", 4), "n"))
	}
	f.amountsGone(zonesOfNode, "n")
	f.want("with neither", -1)
}

// largestExact returns the same as largest, if the node's answers should be certain.
func (f *amountsFixture) largestExact() int64 {
	n, largest := f.table.Named("n"), int64(-1)
	if f.table.Unusable(n) != nil {
		return largest
	}
	for cpus := range int64(16) {
		r := requestOf(f.t, pinned("q", cpus+1))
		if a := n.Account().View().Ask(ledger.Question{Candidate: &ledger.Candidate{Request: r, Created: 9999}}); a.OK() {
			largest = cpus + 1
		}
	}
	return largest
}

// TestTheBetterOfTwoAmounts: if a node has both kinds, Numatopology counts, unless it is invalid.
func TestTheBetterOfTwoAmounts(t *testing.T) {
	f := newAmountsFixture(t)
	f.amountsSeen(zonesOfNode, f.zones(0, "7", "7"))
	nt := &nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.Unix(1000, 0)}, Spec: nodeinfo.NumatopologySpec{
		Policies:  map[string]string{nodeinfo.CPUManagerPolicy: "static", nodeinfo.TopologyManagerPolicy: "single-numa-node"},
		Resources: map[string]nodeinfo.ResourceInfo{"cpu": {Allocatable: "0-3", Capacity: 4}},
		CPUDetail: map[string]nodeinfo.CPUInfo{"0": {}, "1": {CoreID: 1}, "2": {CoreID: 2}, "3": {CoreID: 3}},
	}}
	f.amountsSeen(numatopology, nt)
	f.want("four CPUs, one of the system's", 3)
	wrong := nt.DeepCopy()
	wrong.Spec.Resources["cpu"] = nodeinfo.ResourceInfo{Allocatable: "0-99"}
	f.amountsSeen(numatopology, wrong)
	f.want("the zones", 7)
	f.amountsGone(zonesOfNode, "n")
	f.want("nothing that can be relied on", -1)
	if why := f.table.Unusable(f.table.Named("n")); why.Reason != nodestate.Malformed {
		t.Errorf("%+v", why)
	}
	f.amountsSeen(numatopology, nt)
	f.want("it was mended", 3)
}

// TestANodeWithAmountsIsKept: while the report exists, it need not be sent again.
func TestANodeWithAmountsIsKept(t *testing.T) {
	f := newAmountsFixture(t)
	f.amountsSeen(zonesOfNode, f.zones(0, "-1", "7"))
	f.sweepTwice()
	f.amountsSeen(zonesOfNode, f.zones(0, "7", "7"))
	f.want("mended", 7)
	f.amountsGone(zonesOfNode, "n")
	f.sweepTwice()
	if f.left() != 0 {
		t.Error("it is left")
	}
}
