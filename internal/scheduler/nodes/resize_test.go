package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/ledger"
)

// resizedTo returns the pod with another number of CPUs in its spec. allocated is what its status
// reports as allocated; 0 if it reports nothing.
func resizedTo(pod *corev1.Pod, spec, allocated int64) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = *resource.NewQuantity(spec, resource.DecimalSI)
	if allocated > 0 {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(allocated, resource.DecimalSI)}}}
	}
	return pod
}

// TestARefusedResizeIsNotCounted: the kubelet refused to resize a pinned pod, so that its spec
// requests more, or less, than the node has allocated.
func TestARefusedResizeIsNotCounted(t *testing.T) {
	a := on(pinned("a", 4), "n")
	for name, c := range map[string]struct {
		seen []*corev1.Pod
		want ledger.Outcome
		wait ledger.Wait
	}{
		"it keeps 4 CPUs":               {[]*corev1.Pod{resizedTo(a, 8, 4)}, ledger.Admitted, 0},
		"it keeps 8 CPUs":               {[]*corev1.Pod{resizedTo(a, 4, 8)}, ledger.Waiting, ledger.Undecided},
		"nobody knows which":            {[]*corev1.Pod{a, resizedTo(a, 8, 0)}, ledger.Waiting, ledger.Resized},
		"known from the pod afterwards": {[]*corev1.Pod{a, resizedTo(a, 8, 4)}, ledger.Admitted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.NodeSeen("n")
			f.ReportSeen(f.reportOf("n"))
			for _, pod := range c.seen {
				f.PodSeen(pod, false)
			}
			x := pinned("x", 8)
			candidate := f.table.Candidate(x, requestOf(t, x))
			if got := f.table.Named("n").account.View().Ask(ledger.Question{Candidate: &candidate}); got.Outcome != c.want || got.Wait != c.wait {
				t.Errorf("another pod that wants all of a NUMA node: %+v, want %v %v", got, c.want, c.wait)
			}
		})
	}
}
