package vm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/topology"
)

// restricted is the kubelet configuration of the smoke run.
const restricted KubeletSettings = `cpuManagerPolicy: static
topologyManagerPolicy: restricted
reservedSystemCPUs: "0"
`

// TestJoin checks the suite without Berth: a manually bound pod runs on the CPUs that the kubelet's
// packed allocation gives on an empty machine.
func TestJoin(t *testing.T) {
	requireVM(t, "join")
	c := newCluster(t)
	m := c.node("vm-a", twoByTwo, restricted)
	pod, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pinnedPod("hand", 4), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: m.Name}}
	if err := c.Client.CoreV1().Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := c.confined(m, c.running("hand"), "c")
	if want := topology.NewCPUSet(4, 5, 6, 7); got.CPUs != want {
		t.Errorf("the process may run on %v, want %v", got.CPUs, want)
	}
}
