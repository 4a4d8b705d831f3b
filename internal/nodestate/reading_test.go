package nodestate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// sample returns the report of an empty node with two packages.
func sample(t testing.TB) *v1alpha1.NodeTopology {
	t.Helper()
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21")
	view := made.View(t, m)
	spec := wire.NodeSpec{
		Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"},
	}
	model := made.ModelOf(t, view, spec.Config)
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: "n", Spec: spec, Report: wire.Report{
		Sequence: 7, Snapshot: model.NewState().Snapshot(),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	nt.UID = "object"
	return nt
}

func TestRead(t *testing.T) {
	var kinds Kinds
	r := kinds.Read(sample(t), nil)
	if r.Unusable != nil || r.State == nil || r.Guarantee != wire.GuaranteeFull || r.Authority() != v1alpha1.AuthorityKubelet {
		t.Fatalf("read %+v", r)
	}
	if r.Mark.Sequence() != 7 || r.State.Sequence != 7 || r.State.Model != r.Kind.Model || !r.Kind.Spec.Config.GuardDefects {
		t.Errorf("read %+v of kind %+v", r, r.Kind)
	}
}

// TestAKubeletOfUnknownConfiguration: the node is reliable, but its reading is unsure.
func TestAKubeletOfUnknownConfiguration(t *testing.T) {
	for status, unsure := range map[metav1.ConditionStatus]bool{metav1.ConditionUnknown: true, metav1.ConditionFalse: false} {
		nt := sample(t)
		nt.Status.Conditions = append(nt.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionKubeletCurrent, Status: status, Reason: v1alpha1.ReasonConfigurationNewer,
		})
		var kinds Kinds
		if r := kinds.Read(nt, nil); r.Unusable != nil || r.State.Unsure != unsure {
			t.Errorf("KubeletCurrent is %s: %+v", status, r)
		}
	}
}

// TestNVIDIAIsPredicted: from the addresses of the GPUs and the links of the machine, it is known
// which GPUs NVIDIA's plugin chooses.
func TestNVIDIAIsPredicted(t *testing.T) {
	nt := sample(t)
	nt.Spec.Devices = "dev:18:00.0|19:00.0|1a:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0 link:nvlink=2,18:00.0+1a:00.0"
	near := v1alpha1.NUMAList("0")
	nt.Status.Devices = []v1alpha1.DevicePool{{Resource: "nvidia.com/gpu", Preference: v1alpha1.PreferenceNVIDIA, Groups: []v1alpha1.DeviceGroup{{
		NUMA: &near, IDs: []v1alpha1.DeviceID{"GPU-a", "GPU-b", "GPU-c"}, Addresses: []v1alpha1.PCIAddress{"0000:1a:00.0", "0000:19:00.0", "0000:18:00.0"},
	}}}}
	decide := func() (placement.Verdict, []string) {
		var kinds Kinds
		r := kinds.Read(nt, nil)
		if r.Unusable != nil {
			t.Fatal(r.Unusable)
		}
		state, err := r.Kind.Model.StateOf(&r.Report.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		request := placement.Request{UID: "u", Containers: []placement.ContainerRequest{{Name: "main", Devices: []placement.DeviceRequest{{Resource: "nvidia.com/gpu", Count: 2}}}}}
		var d placement.Decision
		v := placement.Decide(state, &request, &d)
		return v, d.Containers[0].Devices[0].IDs
	}
	if v, ids := decide(); !v.OK() || v.Random || !slices.Equal(ids, []string{"GPU-a", "GPU-c"}) {
		t.Errorf("got %+v, %v", v, ids)
	}
	nt.Status.Devices[0].Groups[0].Addresses[1] = ""
	if v, ids := decide(); !v.OK() || !v.Random {
		t.Errorf("a GPU of which nobody knows where it is: %+v, %v", v, ids)
	}
}

// TestUnusable: each kind of error in a report has its own reason. The case also lists which data
// is still known.
func TestUnusable(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(*v1alpha1.NodeTopology)
		reason string
		text   string
		// kind and report are true if they are still known.
		kind, report bool
	}{
		{"not an object of this release", func(nt *v1alpha1.NodeTopology) { nt.Malformed = "spec: a list" }, OtherRelease, "delete that once", false, false},
		{"pods as objects", func(nt *v1alpha1.NodeTopology) {
			nt.Status.Pods = []v1alpha1.PodAllocation{{Malformed: `{"uid":"p"}`}}
		}, Malformed, "a line of text with the resources of a pod", true, false},
		{"an unknown machine", func(nt *v1alpha1.NodeTopology) { nt.Spec.Machine = "package:x" }, Malformed, "spec.machine", false, false},
		{"two decide", func(nt *v1alpha1.NodeTopology) { nt.Spec.Authority = v1alpha1.AuthorityBerth }, Unsupported, "cpuManagerPolicy", true, false},
		{"a kubelet of tomorrow", func(nt *v1alpha1.NodeTopology) { nt.Spec.KubeletVersion = "v1.99.0" }, Unsupported, "99", true, false},
		{"too many pods", func(nt *v1alpha1.NodeTopology) { nt.Status.Pods = make([]v1alpha1.PodAllocation, 1025) }, Malformed, "at most 1024", true, false},
		{"a number below zero", func(nt *v1alpha1.NodeTopology) { nt.Status.Sequence = -1 }, Malformed, "status.sequence", true, false},
		{"not ready", func(nt *v1alpha1.NodeTopology) {
			nt.Status.Conditions[0].Status, nt.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonContradiction
		}, v1alpha1.ReasonContradiction, "not Ready", true, true},
		{"never reported", func(nt *v1alpha1.NodeTopology) { nt.Status = v1alpha1.NodeTopologyStatus{} }, "NotReported", "has not reported yet", true, true},
		{"CPUs of another machine", func(nt *v1alpha1.NodeTopology) { nt.Status.SharedCPUs = "0-99" }, Malformed, "status.sharedCPUs", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			nt := sample(t)
			c.spoil(nt)
			r := new(Kinds).Read(nt, nil)
			switch {
			case r.Unusable == nil:
				t.Fatal("it can be relied on")
			case r.Unusable.Reason != c.reason || !strings.Contains(r.Unusable.Error(), c.text):
				t.Errorf("%s: %s, want %s: ...%s...", r.Unusable.Reason, r.Unusable, c.reason, c.text)
			case r.State != nil || r.Guarantee != wire.GuaranteeNone:
				t.Errorf("state %v, guarantee %s", r.State, r.Guarantee)
			}
			if (r.Kind != nil) != c.kind || (r.Report != nil) != c.report {
				t.Errorf("kind %v, report %v", r.Kind, r.Report)
			}
		})
	}
}

// TestKindsAreShared: nodes of one kind share one model, whichever is read first, and an error
// names its own node.
func TestKindsAreShared(t *testing.T) {
	var kinds Kinds
	const readers = 8
	read := make([]*Reading, readers)
	var all sync.WaitGroup
	for i := range readers {
		nt := sample(t)
		nt.Name = fmt.Sprint("n", i)
		all.Go(func() { read[i] = kinds.Read(nt, nil) })
	}
	all.Wait()
	for _, r := range read {
		if r.Kind != read[0].Kind {
			t.Errorf("%s has a kind of its own", r.Node)
		}
	}
	other := sample(t)
	other.Spec.TopologyManager.Policy = "restricted"
	if r := kinds.Read(other, read[0].Kind); r.Kind == read[0].Kind || r.Kind.Spec.Config.TopologyManagerPolicy != "restricted" {
		t.Error("a kind was taken for another")
	}
	for _, name := range []string{"a", "b"} {
		wrong := sample(t)
		wrong.Name, wrong.Spec.Machine = name, "package:x"
		if r := kinds.Read(wrong, read[0].Kind); !strings.Contains(r.Unusable.Text, "NodeTopology "+name+":") {
			t.Errorf("of node %s: %s", name, r.Unusable)
		}
	}
}

// TestKindsAreBounded: if a node reports one machine after another, old ones are removed.
func TestKindsAreBounded(t *testing.T) {
	var kinds Kinds
	for i := range 2*maxKinds + 1 {
		if _, err := kinds.shared(fmt.Sprint(i), func() (*NodeKind, error) { return new(NodeKind), nil }); err != nil {
			t.Fatal(err)
		}
		if n := len(kinds.bySpec); n > maxKinds {
			t.Fatalf("%d kinds are remembered, want at most %d", n, maxKinds)
		}
	}
}

// TestLastKindIsKept: a node keeps its kind even if so many others came that it is no longer
// cached.
func TestLastKindIsKept(t *testing.T) {
	first := new(Kinds).Read(sample(t), nil)
	if again := new(Kinds).Read(sample(t), first.Kind); again.Kind != first.Kind {
		t.Error("the kind was compiled again")
	}
	unsupported := sample(t)
	unsupported.Spec.Authority = v1alpha1.AuthorityBerth
	last := new(Kinds).Read(unsupported, nil).Kind
	if again := new(Kinds).Read(unsupported, last); again.Unusable == nil || again.Unusable.Reason != Unsupported {
		t.Errorf("the second time: %v", again.Unusable)
	}
}

func TestFollows(t *testing.T) {
	last := Mark{uid: "a", created: 100, observed: 5, sequence: 7}
	with := func(change func(*Mark)) Mark {
		m := last
		change(&m)
		return m
	}
	for _, c := range []struct {
		name string
		mark Mark
		last Mark
		want bool
	}{
		{"the first", last, Mark{}, true},
		{"the same", last, last, true},
		{"the next", with(func(m *Mark) { m.sequence++ }), last, true},
		{"one before", with(func(m *Mark) { m.sequence-- }), last, false},
		{"a number given twice", with(func(m *Mark) { m.observed++ }), last, false},
		{"of a later object", with(func(m *Mark) { m.uid, m.created, m.sequence = "b", 101, 1 }), last, true},
		{"of an object of the same second", with(func(m *Mark) { m.uid, m.sequence = "b", 1 }), last, true},
		{"of an earlier object", with(func(m *Mark) { m.uid, m.created, m.sequence = "b", 99, 9 }), last, false},
	} {
		if got := c.mark.Follows(c.last); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		r := Reading{Node: "n", Mark: c.mark}
		if u := r.WentBack(c.last); (u == nil) != c.want {
			t.Errorf("%s: went back: %v", c.name, u)
		}
	}
	var cause *wire.FieldError
	u := (&Reading{Node: "n", Mark: with(func(m *Mark) { m.sequence-- })}).WentBack(last)
	if !errors.As(u, &cause) || cause.Field != "status.sequence" || u.Reason != WentBack {
		t.Errorf("%+v because of %v", u, cause)
	}
	if u := (&Reading{Node: "n"}).WentBack(last); u != nil {
		t.Errorf("a report without a mark: %v", u)
	}
}

func lease(name string, renewed bool, sequence string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "berth-system"}}
	if renewed {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(100, 0)}
	}
	if sequence != "" {
		l.Annotations = map[string]string{v1alpha1.SequenceAnnotation: sequence}
	}
	return l
}

func TestHeartbeatOf(t *testing.T) {
	name := v1alpha1.HeartbeatName("n1")
	b, err := HeartbeatOf(lease(name, true, "7"))
	if err != nil || b != (Heartbeat{"n1", time.Unix(100, 0), 7}) {
		t.Errorf("read %+v, %v", b, err)
	}
	if !b.VouchesFor(7) || b.VouchesFor(6) || b.VouchesFor(8) {
		t.Error("it vouches for another report than its own")
	}
	if b, err := HeartbeatOf(lease(name, true, "")); err != nil || !b.VouchesFor(3) {
		t.Errorf("a heartbeat that names no report: %+v, %v", b, err)
	}
	if _, err := HeartbeatOf(lease("kube-scheduler", true, "")); !errors.Is(err, ErrNoHeartbeat) {
		t.Errorf("another Lease: %v", err)
	}
	for _, wrong := range []*coordinationv1.Lease{lease(name, false, "7"), lease(name, true, "x"), lease(name, true, "-1"), lease(name, true, "99999999999999999999")} {
		var field *wire.FieldError
		if b, err := HeartbeatOf(wrong); !errors.As(err, &field) || b != (Heartbeat{}) {
			t.Errorf("read %+v of %+v: %v", b, wrong, err)
		}
	}
}

func TestSightingOf(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: types.UID("uid-p"), CreationTimestamp: metav1.Unix(500, 0)}}
	if _, err := SightingOf(pod); !errors.Is(err, ErrNotPinnable) {
		t.Errorf("a pod that asks for nothing: %v", err)
	}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: wholeCPUs("2")}}
	pod.Status.QOSClass = corev1.PodQOSGuaranteed
	s, err := SightingOf(pod)
	if err != nil || s.UID != "uid-p" || s.Created != 500 || s.Promise != nil || s.Ignored != nil || s.Ending() {
		t.Errorf("read %+v, %v", s, err)
	}
	pod.Annotations = map[string]string{wire.PlacementAnnotation: "{"}
	pod.Status.Phase = corev1.PodFailed
	if s, err := SightingOf(pod); err != nil || s.Ignored == nil || s.Promise != nil || !s.Ending() {
		t.Errorf("with a placement that is none: %+v, %v", s, err)
	}
	delete(pod.Annotations, wire.PlacementAnnotation)
	pod.Annotations[wire.DevicesAnnotation], pod.Annotations[wire.NUMANodesAnnotation] = "perNUMANode=2", "1"
	if s, err := SightingOf(pod); err != nil || s.Request.Rules != (placement.Rules{NUMANodes: 1}) {
		t.Errorf("bound by others, to where nobody asked for its devices' NUMA nodes: %+v, %v", s, err)
	}
	pod.Spec.Containers[0].Resources = wholeCPUs("-2")
	var field *wire.FieldError
	if _, err := SightingOf(pod); !errors.As(err, &field) {
		t.Errorf("with less than no CPUs: %v", err)
	}
}
