package gang

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// slowShut is the slow twin of shut. It does not group nodes by domain, and compares every refusal
// with the node.
type slowShut struct {
	labels [][]string // by node; "-" if the node does not have the label
	full   map[int]bool
	closed map[string][]int // nodes, by plugin
	keys   map[string][]int // the label keys that a plugin reads
}

func (s *slowShut) has(node int) bool {
	for plugin, nodes := range s.closed {
		for _, other := range nodes {
			same := true
			for _, key := range s.keys[plugin] {
				same = same && s.labels[node][key] == s.labels[other][key]
			}
			if same {
				return true
			}
		}
	}
	return s.full[node]
}

// TestShutAgainstTwin: the answers that are kept by domain equal those of the single refusals, for
// every node. Labels may be empty or missing.
func TestShutAgainstTwin(t *testing.T) {
	values := []string{"-", "", "a", ",", "a,", `"`}
	said := map[string]*fwk.Status{
		names.PodTopologySpread: fwk.NewStatus(fwk.Unschedulable, "skew").WithPlugin(names.PodTopologySpread),
		names.InterPodAffinity:  fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch).WithPlugin(names.InterPodAffinity),
	}
	hopeless := []*fwk.Status{
		fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no such label").WithPlugin(names.PodTopologySpread),
		fwk.NewStatus(fwk.Unschedulable, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch).WithPlugin(names.InterPodAffinity),
		fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin(names.NodeResourcesFit),
	}
	shutOnes := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 55))
		twin := &slowShut{full: map[int]bool{}, closed: map[string][]int{}, keys: map[string][]int{}}
		tr := &trial{}
		for i := range 30 {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{}}}
			var has []string
			for key := range 3 {
				value := values[rng.IntN(len(values))]
				if has = append(has, value); value != "-" {
					node.Labels[fmt.Sprint("k", key)] = value
				}
			}
			twin.labels = append(twin.labels, has)
			info := framework.NewNodeInfo()
			info.SetNode(node)
			tr.infos = append(tr.infos, info)
		}
		k := &kind{pod: &corev1.Pod{}, coupled: true}
		k.pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		anti := k.pod.Spec.Affinity.PodAntiAffinity
		for key := range 3 {
			if rng.IntN(2) == 0 {
				k.pod.Spec.TopologySpreadConstraints = append(k.pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: fmt.Sprint("k", key)})
				twin.keys[names.PodTopologySpread] = append(twin.keys[names.PodTopologySpread], key)
			}
			if rng.IntN(2) == 0 {
				anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{TopologyKey: fmt.Sprint("k", key)})
				twin.keys[names.InterPodAffinity] = append(twin.keys[names.InterPodAffinity], key)
			}
		}
		for range 40 {
			node := rng.IntN(len(tr.infos))
			switch rng.IntN(8) {
			case 0:
				reopened := len(twin.closed) > 0
				if clear(twin.closed); k.shut.reopen() != reopened {
					t.Fatalf("seed %d: reopened %t, want %t", seed, !reopened, reopened)
				}
			case 1:
				k.shut.close(tr, k, node, hopeless[rng.IntN(len(hopeless))])
				twin.full[node] = true
			default:
				for plugin, s := range said {
					if rng.IntN(4) == 0 {
						k.shut.close(tr, k, node, s)
						twin.closed[plugin] = append(twin.closed[plugin], node)
					}
				}
			}
			for i := range tr.infos {
				if got, want := k.shut.has(i), twin.has(i); got != want {
					t.Fatalf("seed %d: node with labels %q: shut %t, want %t", seed, twin.labels[i], got, want)
				} else if got {
					shutOnes++
				}
			}
		}
	}
	if shutOnes < 1000 {
		t.Errorf("nodes were shut %d times: want more", shutOnes)
	}
}
