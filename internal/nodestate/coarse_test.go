package nodestate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

var written = time.Unix(1_760_000_000, 0)

// zones returns a node of two zones with eight CPUs each. left of them are free in the first.
func zones(left string) *nrt.NodeResourceTopology {
	zone := func(name, left string) nrt.Zone {
		return nrt.Zone{Name: name, Type: "Node", Resources: nrt.ResourceInfoList{{
			Name: "cpu", Capacity: resource.MustParse("8"), Allocatable: resource.MustParse("7"), Available: resource.MustParse(left),
		}}}
	}
	return &nrt.NodeResourceTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "o", Generation: 3, CreationTimestamp: metav1.NewTime(written)},
		Attributes: nrt.AttributeList{{Name: "topologyManagerPolicy", Value: "single-numa-node"}},
		Zones:      nrt.ZoneList{zone("node-0", left), zone("node-1", "7")},
	}
}

// four returns a bound pod of four CPUs, which the kubelet started after after the report was
// written.
func four(uid types.UID, after time.Duration) *corev1.Pod {
	start := metav1.NewTime(written.Add(after))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: string(uid), UID: uid, CreationTimestamp: metav1.NewTime(written.Add(after))},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Resources: wholeCPUs("4")}}},
		Status:     corev1.PodStatus{StartTime: &start},
	}
}

// TestCoarseCountsPodsOnce: a pod that the report counts is not charged again. A later pod is
// charged in addition.
func TestCoarseCountsPodsOnce(t *testing.T) {
	var kinds Kinds
	pods := []*corev1.Pod{four("before", -time.Minute), four("after", time.Second), four("over", -time.Minute)}
	pods[2].Status.Phase = corev1.PodSucceeded
	beside := BesideOf(&corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.1"}}}, pods)
	r, err := kinds.ReadCoarse(zones("3"), beside, nil)
	if err != nil || r.Unusable != nil || r.Guarantee != wire.GuaranteeAmounts || r.Source.Kind != "NodeResourceTopology" {
		t.Fatalf("read %+v, error %v", r, err)
	}
	if !r.State.Has("before") || r.State.Has("after") || r.State.Has("over") {
		t.Errorf("the report lists %v", r.Report.Snapshot.Pods)
	}
	account := new(ledger.Ledger).Open(nil)
	account.Accept(r.State)
	for _, pod := range pods[:2] {
		s, err := SightingOf(pod)
		if err != nil {
			t.Fatal(err)
		}
		account.See(s.Sighting)
	}
	for cpus, want := range map[int64]bool{3: true, 4: false} {
		q := placement.Request{UID: "q", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000}}}
		a := account.View().Ask(ledger.Question{Candidate: &ledger.Candidate{Request: &q}})
		if a.OK() != want {
			t.Errorf("%d CPUs, of which 3 and 7 or 3 are left: %+v", cpus, a)
		}
	}
	again, _ := kinds.ReadCoarse(zones("7"), beside, r.Kind)
	if again.Kind != r.Kind && again.Kind.Model == nil {
		t.Errorf("kinds %+v and %+v", r.Kind, again.Kind)
	}
}

// TestANodeWhoseClockIsBehind: according to its kubelet, a pod started before the report was
// written. According to the API server's clock, the pod had no node then, so that the report does
// not count it.
func TestANodeWhoseClockIsBehind(t *testing.T) {
	for after, counted := range map[time.Duration]bool{-time.Second: true, 0: true, time.Second: false} {
		pod := four("p", after-time.Minute)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(written.Add(after))}}
		var kinds Kinds
		r, err := kinds.ReadCoarse(zones("3"), BesideOf(nil, []*corev1.Pod{pod}), nil)
		if err != nil || r.Unusable != nil || r.State.Has("p") != counted {
			t.Errorf("bound %s after the report: %+v, error %v; want it counted: %t", after, r, err, counted)
		}
	}
}

func TestCoarseKindsAreShared(t *testing.T) {
	var kinds Kinds
	a, _ := kinds.ReadCoarse(zones("7"), new(wire.Beside), nil)
	other := zones("7")
	other.Name = "m"
	b, _ := kinds.ReadCoarse(other, new(wire.Beside), nil)
	if a.Kind == nil || a.Kind != b.Kind {
		t.Errorf("two nodes of one kind have %p and %p", a.Kind, b.Kind)
	}
}

func TestPrefer(t *testing.T) {
	coarse, worse := &Reading{Guarantee: wire.GuaranteeAmounts}, &Reading{Unusable: FellSilent()}
	for name, c := range map[string]struct {
		coarse []*Reading
		want   *Reading
	}{
		"the first":                    {[]*Reading{coarse, worse}, coarse},
		"the one that can be used":     {[]*Reading{worse, nil, coarse}, coarse},
		"none that can be used":        {[]*Reading{nil, worse}, worse},
		"none":                         {nil, nil},
		"none but places for two more": {[]*Reading{nil, nil}, nil},
	} {
		if got := Prefer(c.coarse); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCoarseThatCannotBeRead(t *testing.T) {
	var kinds Kinds
	if _, err := kinds.ReadCoarse(new(corev1.Node), new(wire.Beside), nil); err == nil {
		t.Error("a Node was taken for a report")
	}
	r, err := kinds.ReadCoarse(&nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, new(wire.Beside), nil)
	if err != nil || r.Unusable == nil || r.Unusable.Reason != Malformed || r.Guarantee != wire.GuaranteeNone || r.State != nil {
		t.Errorf("read %+v, error %v", r, err)
	}
}
