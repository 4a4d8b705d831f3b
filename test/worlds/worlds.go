// Package worlds makes clusters for tests of packages that survey a cluster.
package worlds

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// Noon is the time of all questions.
var Noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// World is a cluster that does not change. A test may add to it.
type World struct {
	*testing.T
	source.Snapshot
}

// New returns a World without objects.
func New(t *testing.T) *World {
	return &World{T: t, Snapshot: source.Snapshot{Taken: Noon, Where: "test", StaleAfter: "1m"}}
}

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// NodeSpec has two NUMA nodes of 4 CPUs. The first CPU is reserved.
func (w *World) NodeSpec() wire.NodeSpec {
	m, err := topology.Parse("package:2 numa:1 core:4 pu:1 mem:16Gi dist:10,21")
	w.Must(err)
	view, err := placement.ViewOf(m)
	w.Must(err)
	return wire.NodeSpec{Machine: m, View: view, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: "v1.36.3",
		Config: placement.Config{Version: placement.V136, CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node"}}
}

// AddNode makes a node with a live agent. Two minutes ago it reported the pods that its kubelet had
// admitted.
func (w *World) AddNode(name string, admitted ...*corev1.Pod) *v1alpha1.NodeTopology {
	w.Helper()
	spec := w.NodeSpec()
	model, err := placement.NewModel(spec.View, spec.Config)
	w.Must(err)
	k := sim.NewKubelet(model)
	for _, pod := range admitted {
		ask, err := wire.ReadPod(pod)
		w.Must(err)
		if a := k.Admit(&ask.Request); !a.Verdict.OK() {
			w.Fatalf("%s: %+v", pod.Name, a.Verdict)
		}
	}
	report := wire.Report{Sequence: 7, Observed: Noon.Add(-2 * time.Minute), Snapshot: k.State.Snapshot(), Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent}}}
	report.Pods = make([]wire.ReportedPod, len(report.Snapshot.Pods))
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: name, Spec: spec, Report: report})
	w.Must(err)
	w.Nodes = append(w.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("10")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	w.Beat(name, Noon.Add(-10*time.Second))
	return nt
}

// Report stores a report of AddNode, which the test may have changed.
func (w *World) Report(nt *v1alpha1.NodeTopology) {
	w.Helper()
	data, err := json.Marshal(nt)
	w.Must(err)
	w.Reports = append(w.Reports, data)
}

// Beat adds a heartbeat of a node's agent.
func (w *World) Beat(node string, at time.Time) {
	renewed := metav1.NewMicroTime(at)
	w.Leases = append(w.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(node)},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
}

// Pod returns a Guaranteed pod of one container with whole CPUs.
func Pod(name string, cpus int64) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(Noon.Add(-time.Hour))},
		Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSGuaranteed},
	}
}

// Bind binds a pod to a node with a promise of CPUs. Both may be "".
func (w *World) Bind(p *corev1.Pod, node, cpus string) *corev1.Pod {
	w.Helper()
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	if cpus != "" {
		set, err := topology.ParseCPUList(cpus)
		w.Must(err)
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{{
				Name: "main", CPUs: set, Hint: placement.Hint{NUMA: w.NodeSpec().Machine.NodesOf(set), Preferred: true}}}}})
		w.Must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	w.Pods = append(w.Pods, p)
	return p
}

// AddZones makes a node that only NodeResourceTopology describes. It has two zones of seven CPUs
// for pods, of which free are free in the first.
func (w *World) AddZones(name, free string) {
	zone := func(zone, free string) nrt.Zone {
		return nrt.Zone{Name: zone, Type: "Node", Resources: nrt.ResourceInfoList{{
			Name: "cpu", Capacity: resource.MustParse("8"), Allocatable: resource.MustParse("7"), Available: resource.MustParse(free),
		}}}
	}
	w.Nodes = append(w.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.Zones = append(w.Zones, &nrt.NodeResourceTopology{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "zones", CreationTimestamp: metav1.NewTime(Noon.Add(-time.Hour))},
		Attributes: nrt.AttributeList{{Name: "topologyManagerPolicy", Value: "single-numa-node"}},
		Zones:      nrt.ZoneList{zone("node-0", free), zone("node-1", "7")},
	})
}

// Member adds a pending pod of a gang that is declared by annotations.
func (w *World) Member(gang string, i, minimum int, cpus int64) *corev1.Pod {
	one := Pod(fmt.Sprintf("%s-%d", gang, i), cpus)
	one.Annotations = map[string]string{wire.GangAnnotation: gang, wire.GangMinimumAnnotation: fmt.Sprint(minimum)}
	w.Pods = append(w.Pods, one)
	return one
}

// Group adds an object that declares a gang.
func (w *World) Group(text string) {
	w.Helper()
	if !json.Valid([]byte(text)) {
		w.Fatalf("no JSON: %s", text)
	}
	w.Groups = append(w.Groups, json.RawMessage(text))
}
