package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// fixture is a feed of nodes that all report the same machine.
type fixture struct {
	*Feed
	t     testing.TB
	clock *testingclock.FakeClock
	table *Table
	state *placement.State
	spec  wire.NodeSpec
	seq   int64
}

// sleepers plays the pods that wait, of which there are none.
type sleepers struct{ clock *testingclock.FakeClock }

func (s sleepers) Now() time.Time            { return s.clock.Now() }
func (sleepers) After(time.Duration, func()) {}
func (sleepers) Activate([]wake.Pod)         {}

// uncounted implements Metrics and drops all values.
type uncounted struct{}

func (uncounted) PromiseSettled(ledger.Result) {}
func (uncounted) ReportRefused()               {}
func (uncounted) PlacementIgnored()            {}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: testingclock.NewFakeClock(time.Unix(1000, 0))}
	f.table = NewTable(f.clock, time.Minute)
	f.Feed = NewFeed(FeedOptions{
		Table: f.table, Waiters: wake.New(sleepers{f.clock}), SettleAfter: 5 * time.Second, Logger: klog.Background(),
		Exists: func(string) bool { return true }, Changed: func() {}, Events: events.NewFakeRecorder(100), Metrics: uncounted{},
	})
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21")
	view := made.View(t, m)
	f.spec = wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"}}
	model := made.ModelOf(t, view, f.spec.Config)
	f.state = model.NewState()
	return f
}

// reportOf returns the next report of the named node.
func (f *fixture) reportOf(name string) *v1alpha1.NodeTopology {
	f.t.Helper()
	f.seq++
	r := wire.Report{Sequence: f.seq, Snapshot: f.state.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}}
	r.Pods = make([]wire.ReportedPod, len(r.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: name, Spec: f.spec, Report: r})
	if err != nil {
		f.t.Fatal(err)
	}
	nt.UID = types.UID(name)
	return nt
}

// admit makes the kubelets admit a pod.
func (f *fixture) admit(pod *corev1.Pod) {
	f.t.Helper()
	r, d := requestOf(f.t, pod), new(placement.Decision)
	if v := placement.Decide(f.state, r, d); !v.OK() {
		f.t.Fatalf("%s: %+v", pod.Name, v)
	}
	f.state.Commit(r, d)
}

func requestOf(t testing.TB, pod *corev1.Pod) *placement.Request {
	t.Helper()
	ask, err := wire.ReadPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &ask.Request
}

func pinned(name string, cpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(500, 0)},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Mi")}}}}},
		Status: corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed},
	}
}

func on(pod *corev1.Pod, nodeName string) *corev1.Pod {
	pod.Spec.NodeName = nodeName
	return pod
}

func nodeObject(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
