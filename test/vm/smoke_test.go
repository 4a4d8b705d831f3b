package vm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// TestSmoke is the cheapest comparison of hollow and real nodes: one real kubelet on 4 NUMA nodes,
// the agent in the guest, the scheduler outside, and five pods that run as their Bindings say.
func TestSmoke(t *testing.T) {
	requireVM(t, "smoke")
	c := newCluster(t)
	m := c.node("vm-a", twoByTwo, restricted)
	c.reported(m.Name)
	c.sameTopology(m)
	// On nodes with authority berth the agent pins through this socket.
	if _, err := m.Guest.Run(t.Context(), "[ -S /var/run/nri/nri.sock ]"); err != nil {
		t.Errorf("containerd offers no NRI socket: %v", err)
	}
	c.berthScheduler()
	// NUMA node 0 has 3 free CPUs, the others have 4. There is only one way to place all pods.
	for i, cpus := range []int{4, 4, 2, 4, 1} {
		pod := pinnedPod(fmt.Sprintf("pod-%d", i), cpus)
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("POD     CPUS IN THE BINDING   CPUS OF THE PROCESS   NUMA")
	for i := range 5 {
		pod := c.running(fmt.Sprintf("pod-%d", i))
		promised, got := c.promise(pod), c.confined(m, pod, "c")
		fmt.Printf("%-7s %-21s %-21s %s\n", pod.Name, &promised.Decision.Containers[0].CPUs, got.CPUs, c.numaOf(m, got.CPUs))
		if want := promised.Decision.Containers[0].CPUs; got.CPUs != want {
			t.Errorf("%s runs on %v, its Binding says %v", pod.Name, got.CPUs, want)
		}
		if promised.Certainty != wire.Exact {
			t.Errorf("%s: certainty %v, want exact", pod.Name, promised.Certainty)
		}
	}
}

// promise reads the decision in the pod's annotation.
func (c *cluster) promise(pod *corev1.Pod) wire.Placement {
	c.t.Helper()
	p, found, err := wire.ReadPlacement(pod)
	if err != nil || !found {
		c.t.Fatalf("pod %s: placement found %t, error %v", pod.Name, found, err)
	}
	return p
}

// reported waits until the node's agent has published a Ready report.
func (c *cluster) reported(node string) wire.Node {
	c.t.Helper()
	var out wire.Node
	c.eventually("the agent of "+node+" reports", func(ctx context.Context) error {
		u, err := c.Objects.Resource(v1alpha1.NodeTopologies).Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		nt := new(v1alpha1.NodeTopology)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(nt.Status.Conditions, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("conditions %+v", nt.Status.Conditions)
		}
		out, err = wire.ReadNodeTopology(nt)
		return err
	})
	return out
}

// sameTopology compares the agent's report of the machine with the guest's kernel.
func (c *cluster) sameTopology(m *Machine) {
	c.t.Helper()
	reported := c.reported(m.Name).Spec.Machine
	if got, want := reported.Online.Len(), m.Shape.CPUs(); got != want {
		c.t.Errorf("the report has %d CPUs, the shape %d", got, want)
	}
	for i := range reported.NUMANodes {
		n := &reported.NUMANodes[i]
		dir := fmt.Sprintf("/sys/devices/system/node/node%d", n.ID)
		out, err := m.Guest.Run(c.t.Context(), fmt.Sprintf("cat %s/cpulist %s/distance; grep MemTotal %s/meminfo", dir, dir, dir))
		if err != nil {
			c.t.Fatal(err)
		}
		var distances []string
		for _, d := range n.Distances {
			distances = append(distances, fmt.Sprint(d))
		}
		want := strings.Fields(out)
		got := strings.Fields(fmt.Sprintf("%s %s Node %d MemTotal: %d kB", n.CPUs, strings.Join(distances, " "), n.ID, n.MemoryBytes>>10))
		if strings.Join(got, " ") != strings.Join(want, " ") {
			c.t.Errorf("NUMA node %d: the report says %q, the guest %q", n.ID, got, want)
		}
	}
}

// numaOf returns the NUMA nodes of CPUs, by the shape.
func (c *cluster) numaOf(m *Machine, cpus topology.CPUSet) topology.NUMASet {
	var set topology.NUMASet
	for id := range cpus.All() {
		set = set.With(topology.NUMAID(int(id) / m.Shape.cpusPerNode()))
	}
	return set
}
