package survey

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestPodsThatShareAndPin: of the pods that are not Guaranteed, only those are listed to which
// their placement gives CPUs or NUMA nodes. CPU time that is only counted does not count as pinned.
func TestPodsThatShareAndPin(t *testing.T) {
	w := newWorld(t)
	w.report(w.addNode("n"))
	place := func(name string, d placement.ContainerDecision) {
		p := w.bind(pod(name, 1), "n", "")
		p.Status.QOSClass = corev1.PodQOSBurstable
		d.Name, d.Hint = "main", placement.Hint{Any: true}
		text, err := wire.WritePlacement(&wire.Placement{Sequence: uint64(len(w.Pods)), Report: 6, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull,
			Authority: placement.AuthorityBerth, Decision: placement.Decision{UID: string(p.UID), Containers: []placement.ContainerDecision{d}}})
		w.must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
	}
	shares := []placement.CPUShare{{NUMA: 1, MilliCPU: 500}}
	place("cores", placement.ContainerDecision{CPUs: topology.NewCPUSet(4, 5)})
	place("kept", placement.ContainerDecision{Shares: shares, Bounds: placement.BoundCPUs})
	place("counted", placement.ContainerDecision{Shares: shares})
	w.bind(pod("plain", 1), "n", "").Status.QOSClass = corev1.PodQOSBurstable
	pods, err := w.cluster().Pods(t.Context(), "")
	w.must(err)
	var got []string
	for i := range pods.Pods {
		got = append(got, pods.Pods[i].Name+" "+pods.Pods[i].CPUs)
	}
	if want := []string{"cores 4-5", "kept "}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}
