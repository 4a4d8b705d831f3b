package whatif

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/placement"
)

func guaranteed(name string, cpus, gpus int) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpus)), corev1.ResourceMemory: resource.MustParse("1Gi")}
	if gpus > 0 {
		limits["nvidia.com/gpu"] = resource.MustParse(fmt.Sprint(gpus))
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}}}
}

// server has 2 NUMA nodes with 8 CPUs and 2 GPUs each.
func server(t *testing.T, o query.Setting) *Node {
	t.Helper()
	gpus, err := ParsePool("nvidia.com/gpu=0:2,1:2")
	if err != nil {
		t.Fatal(err)
	}
	if o.CPUManager == "" {
		o.CPUManager, o.Reserved = "static", "0"
	}
	n, err := Spec{Machine: "package:2 numa:1 core:8 pu:1 mem:64Gi", Version: placement.V136, Pools: []placement.DevicePool{gpus}, Setting: o}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNeedAgreesWithAdmit compares with asking every node, from the first on, about every copy.
func TestNeedAgreesWithAdmit(t *testing.T) {
	rng, apart, never := rand.New(rand.NewSource(1)), false, false
	for range 60 {
		n := server(t, query.Setting{Policy: []string{"none", "restricted", "single-numa-node"}[rng.Intn(3)]})
		var load []query.Wanted
		for i := range 1 + rng.Intn(4) {
			load = append(load, query.Wanted{Pod: guaranteed(fmt.Sprint("p", i), 1+rng.Intn(10), rng.Intn(3)), Replicas: 1 + rng.Intn(9)})
		}
		got, err := n.Need(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(load, func(a, b query.Wanted) int { return sizeOf(t, b.Pod) - sizeOf(t, a.Pod) })
		var nodes []*Node
		placed := 0
		for i := range load {
			for copy := range load[i].Replicas {
				pod := load[i].Pod.DeepCopy()
				pod.UID = types.UID(fmt.Sprint(pod.Name, "-", copy))
				at := slices.IndexFunc(append(nodes, n.bare()), func(node *Node) bool { return admits(t, node, pod) })
				if at == len(nodes) {
					nodes = append(nodes, n.bare())
					admits(t, nodes[at], pod)
				}
				if at >= 0 {
					placed++
				}
			}
		}
		if got.Nodes != len(nodes) || got.Pods != placed || got.ByAmounts > got.Nodes {
			t.Errorf("%+v: asking every node %d nodes, %d pods", got, len(nodes), placed)
		}
		apart, never = apart || got.ByAmounts < got.Nodes, never || len(got.Never) > 0
	}
	if !apart || !never {
		t.Errorf("fewer nodes by amounts: %t, pods that never fit: %t: the test has not seen both", apart, never)
	}
}

func sizeOf(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	a, err := read(pod)
	if err != nil {
		t.Fatal(err)
	}
	return int(a.amounts.Size())
}

func admits(t *testing.T, n *Node, pod *corev1.Pod) bool {
	t.Helper()
	got, err := n.Admit(pod)
	if err != nil {
		t.Fatal(err)
	}
	return got.Admitted
}

// TestNeedAsSet: settings change how many pods a node admits.
func TestNeedAsSet(t *testing.T) {
	load := []query.Wanted{{Pod: guaranteed("p", 6, 0), Replicas: 8}} // one per NUMA node
	for _, c := range []struct {
		set   query.Setting
		nodes int
		never string
	}{
		{query.Setting{Policy: "single-numa-node"}, 4, ""},
		{query.Setting{CPUManager: "static", Reserved: "0-3", Policy: "single-numa-node"}, 8, ""}, // NUMA node 0 has 4 CPUs left
		{query.Setting{NUMAPerPackage: 2, Policy: "single-numa-node"}, 0, "6 CPUs need 2 NUMA nodes"},
		{query.Setting{NUMAPerPackage: 2, Policy: "restricted"}, 4, ""},
		{query.Setting{CPUManager: "none"}, 4, ""},
	} {
		got, err := server(t, c.set).Need(t.Context(), load)
		if err != nil || got.Nodes != c.nodes || (c.never == "") != (len(got.Never) == 0) {
			t.Errorf("%+v: %+v, %v: want %d nodes", c.set, got, err, c.nodes)
		}
		if c.never != "" && !strings.Contains(got.Never[0].Refusal.String(), c.never) {
			t.Errorf("%+v: %s: want %s", c.set, got.Never[0].Refusal, c.never)
		}
	}
	if _, err := server(t, query.Setting{}).Need(t.Context(), []query.Wanted{{Pod: guaranteed("p", 1, 0), Replicas: maxNeeded + 1}}); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("too many pods: %v", err)
	}
}

// TestNeedEnds: after an interrupt, a request about a large load ends without an answer.
func TestNeedEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := server(t, query.Setting{}).Need(ctx, []query.Wanted{{Pod: guaranteed("p", 1, 0), Replicas: maxNeeded}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: want %v", err, context.Canceled)
	}
}
