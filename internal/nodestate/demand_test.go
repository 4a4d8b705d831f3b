package nodestate

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/demand"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

const gpu = "example.com/gpu"

// gpuNode returns a node with gpus GPUs on one NUMA node with 8 CPUs, and its account.
func gpuNode(t testing.TB, kind string, gpus int) (*corev1.Node, ledger.View) {
	t.Helper()
	model := made.Model(t, "package:1 numa:1 core:4 pu:2 mem:16Gi", placement.Config{CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node", ReservedSystemCPUs: "0"})
	state := model.NewState()
	pool := placement.DevicePool{Resource: gpu}
	for i := range gpus {
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprint("g", i), HasTopology: true, NUMA: topology.NewNUMASet(0)})
	}
	if kind != "bare" { // without a device plugin
		state.SetPool(pool)
	}
	account := made.Account(t, model, state)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: kind, Labels: map[string]string{"kind": kind}}}
	object.Status.Allocatable = corev1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	return object, account.View()
}

// gpuPod returns a bound pod with this number of GPUs.
func gpuPod(name string, gpus int64, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	p.Spec.NodeName = "somewhere"
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: wholeCPUs("1")}}
	p.Spec.Containers[0].Resources.Limits[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
	if change != nil {
		change(p)
	}
	return p
}

func only(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": kind} }
}

// TestDemand: the demand for a node comes from the pods with devices that could run there.
func TestDemand(t *testing.T) {
	var d Demand
	changed := d.Changed()
	levels := func() [3]demand.Level {
		l, out := d.Levels(), [3]demand.Level{}
		if object, view := gpuNode(t, "bare", 0); l.Of(object, view) != 0 {
			t.Error("a node without a device plugin is in demand")
		}
		for i, n := range []struct {
			kind string
			gpus int
		}{{"a", 2}, {"b", 4}, {"none", 0}} {
			object, view := gpuNode(t, n.kind, n.gpus)
			out[i] = l.Of(object, view)
		}
		return out
	}
	for _, step := range []struct {
		what string
		do   func()
		want [3]demand.Level
	}{
		{"nobody has devices", func() {}, [3]demand.Level{}},
		{"one of all nodes with GPUs", func() { d.Seen(gpuPod("any", 1, nil)) }, [3]demand.Level{31, 31, 0}},
		{"the same again", func() { d.Seen(gpuPod("any", 1, nil)) }, [3]demand.Level{31, 31, 0}},
		{"one of a kind", func() { d.Seen(gpuPod("a", 1, only("a"))) }, [3]demand.Level{31, 15, 0}},
		{"one too large for that kind", func() { d.Seen(gpuPod("large", 4, nil)) }, [3]demand.Level{10, 25, 0}},
		{"its end", func() { d.Seen(gpuPod("large", 4, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })) }, [3]demand.Level{31, 15, 0}},
		{"one that has no node", func() { d.Seen(gpuPod("waits", 2, func(p *corev1.Pod) { p.Spec.NodeName = "" })) }, [3]demand.Level{31, 15, 0}},
		{"one that says too much about nodes", func() { d.Seen(gpuPod("talks", 2, only(strings.Repeat("x", 5000)))) }, [3]demand.Level{31, 15, 0}},
		{"no GPUs", func() { d.Seen(gpuPod("zero", 0, nil)) }, [3]demand.Level{31, 15, 0}},
		{"all are gone", func() { d.Gone("any"); d.Gone("a"); d.Gone("a") }, [3]demand.Level{}},
	} {
		step.do()
		if got := levels(); got != step.want {
			t.Errorf("%s: levels %v, want %v", step.what, got, step.want)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if len(d.of) != 0 || len(d.wishes) != 0 {
		t.Errorf("%d pods and %d wishes are remembered", len(d.of), len(d.wishes))
	}
}

// TestDemandHasABound: the number of cached kinds of nodes is limited, and the cached data is
// right.
func TestDemandHasABound(t *testing.T) {
	var d Demand
	d.Seen(gpuPod("any", 1, nil))
	l := d.Levels()
	for i := range 2*maxKinds + 10 {
		object, view := gpuNode(t, "a", i%3)
		want := demand.MostDemand
		if i%3 == 0 {
			want = 0
		}
		if got := l.Of(object, view); got != want {
			t.Fatalf("node %d has level %d, want %d", i, got, want)
		}
	}
	if len(l.known) > maxKinds || len(l.models) > maxKinds {
		t.Errorf("%d kinds of %d models are remembered", len(l.known), len(l.models))
	}
}

// BenchmarkLevels measures the demand for 5,000 nodes of 72 kinds, for count wishes, half of which
// name nodes. This is not part of an attempt to place a pod.
func BenchmarkLevels(b *testing.B) {
	var d Demand
	for i := range 40 {
		d.Seen(gpuPod(fmt.Sprint(i), int64(1+i%4), func(p *corev1.Pod) {
			if i%2 == 0 {
				only(fmt.Sprint("k", i%72))(p)
			}
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = *resource.NewQuantity(int64(1+i), resource.DecimalSI)
		}))
	}
	type one struct {
		object *corev1.Node
		view   ledger.View
	}
	var nodes []one
	for i := range 72 {
		object, view := gpuNode(b, fmt.Sprint("k", i), 1+i%8)
		nodes = append(nodes, one{object, view})
	}
	for b.Loop() {
		l := d.Levels()
		for i := range 5000 {
			l.Of(nodes[i%len(nodes)].object, nodes[i%len(nodes)].view)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/node")
}
