package scheduler

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// cycleData is the part of a cycle's state that a plugin without a framework needs.
type cycleData struct {
	fwk.CycleState
	held map[fwk.StateKey]fwk.StateData
	// group is the state of a group cycle. evicting means that the cycle tries evictions.
	group    fwk.PodGroupCycleState
	evicting bool
}

// IsPodGroupSchedulingCycle implements fwk.CycleState.
func (c *cycleData) IsPodGroupSchedulingCycle() bool { return c.group != nil }

// GetPodGroupSchedulingCycle implements fwk.CycleState.
func (c *cycleData) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return c.group }

// ShouldSkipAllPostFilterPlugins implements fwk.CycleState.
func (c *cycleData) ShouldSkipAllPostFilterPlugins() bool { return c.evicting }

func newCycleData() *cycleData {
	return &cycleData{CycleState: framework.NewCycleState(), held: map[fwk.StateKey]fwk.StateData{}}
}

func (c *cycleData) Write(key fwk.StateKey, d fwk.StateData) { c.held[key] = d }
func (c *cycleData) Read(key fwk.StateKey) (fwk.StateData, error) {
	if d, ok := c.held[key]; ok {
		return d, nil
	}
	return nil, fwk.ErrNotFound
}

// infoOf is the part of a NodeInfo that the plugin needs. It has no amounts.
type infoOf struct {
	fwk.NodeInfo
	object *corev1.Node
}

func (i infoOf) Node() *corev1.Node { return i.object }

func nodeObject(name string) infoOf {
	return infoOf{NodeInfo: framework.NewNodeInfo(), object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// reportOf returns a report of a node with this name.
func (f *fixture) reportOf(name string) *v1alpha1.NodeTopology {
	nt := f.topology()
	nt.Name, nt.UID = name, types.UID(name)
	return nt
}

// TestReserveHasTheLastWord: on a large cluster, Filter only estimates if pods of the same second
// are in flight. A pod that Reserve refuses is tried again at once, and Filter then knows the exact
// answer.
func TestReserveHasTheLastWord(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	for i := 0; !f.table.Large(); i++ {
		f.table.Named(fmt.Sprint("other", i))
	}
	first, second, info := pinned("b", 4), pinned("a", 4), nodeObject("n")
	n := f.table.Named("n").Account()
	c := f.table.Candidate(first, requestOf(t, first))
	n.Reserve(&c, new(placement.Decision))
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

// TestFilterAfterTheEnd: after the end of an attempt, Filter asks no node, because an answer may
// take long. Its status is no error, because an error would make the whole attempt fail.
func TestFilterAfterTheEnd(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	ended, end := context.WithCancel(t.Context())
	end()
	pod := pinned("x", 4)
	state := f.try(pod)
	if s := f.Filter(ended, state, pod, nodeObject("n")); s.Code() != fwk.Unschedulable || s.Message() != attemptEnded {
		t.Errorf("Filter says %v after the end", s)
	}
	if _, known := cycleOf(state).query.Recall(f.table.Named("n")); known {
		t.Error("the node was asked")
	}
	if s := f.Filter(t.Context(), state, pod, nodeObject("n")); !s.IsSuccess() {
		t.Errorf("Filter says %v before", s)
	}
}
