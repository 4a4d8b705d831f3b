package survey

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestCoarse: a node that only other exporters report is shown as such. An agent's report has
// priority, and a snapshot has both.
func TestCoarse(t *testing.T) {
	w := newWorld(t)
	w.AddZones("n", "4")
	flying := pod("flying", 3)
	flying.Spec.NodeName = "n"
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 1, Guarantee: wire.GuaranteeAmounts, Decision: placement.Decision{
		UID: string(flying.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{NUMA: topology.NewNUMASet(1)}}}}})
	w.Must(err)
	flying.Annotations = map[string]string{wire.PlacementAnnotation: text}
	w.Pods = append(w.Pods, flying)
	w.Report(w.AddNode("both"))
	w.AddZones("both", "1")
	w.Nodes = w.Nodes[:2]
	w.AddZones("spoilt", "8")
	w.Numatopologies = append(w.Numatopologies, &nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "stray"}})

	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
	all := map[string]Node{}
	for _, n := range s.Nodes() {
		all[n.Name] = n
	}
	n := all["n"]
	if n.Guarantee != "amounts" || n.Source != "NodeResourceTopology" || n.Trouble != nil || n.InFlight != 1 || n.AgeSeconds != 3600 || n.Policy != "single-numa-node" {
		t.Errorf("%+v", n)
	}
	if len(n.NUMANodes) != 2 || n.NUMANodes[0].CPUs.Free+n.NUMANodes[1].CPUs.Free != 8 || n.NUMANodes[1].CPUs.Total != 7 {
		t.Errorf("eleven CPUs, less three: %+v", n.NUMANodes)
	}
	if b := all["both"]; b.Guarantee != "full" || b.Source != "" {
		t.Errorf("an agent's report wins: %+v", b)
	}
	if b := all["spoilt"]; b.Guarantee != "none" || b.Trouble == nil || b.Source != "NodeResourceTopology" {
		t.Errorf("more available than allocatable: %+v", b)
	}
	if len(all) != 3 {
		t.Errorf("%d nodes: an object of a node that is none is nothing", len(all))
	}
	if p, _ := s.Pod(flying); p.NUMANodes != "1" || p.Guarantee != "amounts" || p.Certainty != "verdict" || p.State != StateInFlight {
		t.Errorf("%+v", p)
	}
	started := metav1.NewTime(noon.Add(-2 * time.Hour))
	flying.Status.StartTime = &started
	s, err = w.cluster().Survey(t.Context(), "n")
	w.Must(err)
	if p, _ := s.Pod(flying); p.NUMANodes != "1" || p.State != StateAdmitted {
		t.Errorf("counted by the report: %+v", p)
	}
}

// TestPinnedCPUsUnknown: if only amounts are known of a node, a pinned pod is shown with a number
// of CPUs, but without their ids. On a node of which nothing is known, it is shown without CPUs.
func TestPinnedCPUsUnknown(t *testing.T) {
	w := newWorld(t)
	w.AddZones("n", "4")
	placed := func(p *corev1.Pod) *corev1.Pod {
		text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Report: 1, Guarantee: wire.GuaranteeAmounts, Decision: placement.Decision{
			UID: string(p.UID), Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{NUMA: topology.NewNUMASet(1)}}}}})
		w.Must(err)
		p.Annotations = map[string]string{wire.PlacementAnnotation: text}
		return p
	}
	started := metav1.NewTime(noon.Add(-2 * time.Hour))
	on := func(p *corev1.Pod, node string) *corev1.Pod {
		w.Bind(p, node, "")
		p.Status.StartTime = &started
		return p
	}
	shared, mixed, withInit := pod("shared", 3), pod("mixed", 3), pod("init", 3)
	shared.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	shared.Status.QOSClass = corev1.PodQOSBurstable
	mixed.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("2500m")
	mixed.Spec.Containers[0].Resources.Requests = mixed.Spec.Containers[0].Resources.Limits
	first := *withInit.Spec.Containers[0].DeepCopy()
	first.Name = "first"
	withInit.Spec.InitContainers = []corev1.Container{first}
	mine := placed(on(pod("placed", 3), "n"))
	pods := map[*corev1.Pod]int{
		mine: 3, on(pod("not-ours", 3), "n"): 3, on(shared, "n"): 0, on(mixed, "n"): 0,
		on(withInit, "n"): 3, placed(on(pod("nowhere", 3), "gone")): 0,
	}
	s, err := w.cluster().Survey(t.Context(), "")
	w.Must(err)
	for p, want := range pods {
		if got, _ := s.Pod(p); got.UnknownCPUs != want || got.CPUs != "" {
			t.Errorf("%s: %d unknown CPUs, CPUs %q; want %d and none: %+v", p.Name, got.UnknownCPUs, got.CPUs, want, got)
		}
	}
	ask, err := wire.ReadBound(mine)
	w.Must(err)
	if b, _ := s.BoundTo(mine, &ask.Request); b.Promise == nil || b.Promise.Containers[0].UnknownCPUs != 3 || b.Promise.Containers[0].CPUs != "" {
		t.Errorf("%+v", b.Promise)
	}
}
