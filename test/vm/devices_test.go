package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// The two plugins of the devices part: one with GetPreferredAllocation, and one without.
const (
	preferring = "berth.test/gpu"
	careless   = "berth.test/nic"
)

// TestDevices runs pods with CPUs, pinned memory and devices on a real kubelet. All resources of a
// pod are on one NUMA node, and the kubelet's checkpoints agree with the Bindings.
func TestDevices(t *testing.T) {
	requireVM(t, "devices")
	c := newCluster(t)
	c.plugins = "-resource " + preferring + " -devices 0:2,1:2,2:1,3:1 -prefer\n-resource " + careless + " -devices 1:2,3:1\n"
	c.preferences = preferring + "=sorted," + careless + "=none"
	m := c.node("vm-a", twoByTwo, "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nreservedSystemCPUs: \"0\"\n"+staticMemory)
	c.eventually("the node offers the devices", func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		gpus, nics := node.Status.Allocatable[preferring], node.Status.Allocatable[careless]
		if gpus.Value() != 6 || nics.Value() != 3 {
			return fmt.Errorf("%v of %s, %v of %s", &gpus, preferring, &nics, careless)
		}
		return nil
	})
	c.eventually("the report has the devices", func(context.Context) error {
		if pools := c.reported(m.Name).Report.Snapshot.Devices; len(pools) != 2 {
			return fmt.Errorf("pools %+v", pools)
		}
		return nil
	})
	c.berthScheduler()
	fmt.Println("POD     CPUS     MEMORY   DEVICES                      BINDING")
	// The pods come one after the other, because earlier pods with one GPU could leave no two GPUs
	// on one NUMA node.
	asks := []struct{ cpus, gpus, nics int }{{3, 2, 1}, {2, 2, 0}, {2, 1, 1}, {2, 1, 0}, {1, 0, 1}}
	for i, a := range asks {
		pod := pinnedPod(fmt.Sprintf("dev-%d", i), a.cpus)
		for name, n := range map[corev1.ResourceName]int{preferring: a.gpus, careless: a.nics} {
			if n > 0 {
				setBoth(&pod.Spec.Containers[0].Resources, name, *resource.NewQuantity(int64(n), resource.DecimalSI))
			}
		}
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.checkDevices(m, c.running(pod.Name))
	}
}

// checkDevices compares a running pod with its Binding and with the promise of one NUMA node.
func (c *cluster) checkDevices(m *Machine, pod *corev1.Pod) {
	c.t.Helper()
	promised, got := c.promise(pod), c.confined(m, pod, "c")
	numa := c.numaOf(m, got.CPUs) | got.Mems
	held, err := c.heldDevices(m, string(pod.UID))
	if err != nil {
		c.t.Fatal(err)
	}
	var text []string
	for _, e := range held {
		for _, d := range e.Devices {
			numa |= d.NUMA
			text = append(text, d.ID)
		}
	}
	fmt.Printf("%-7s %-8s %-8s %-28s %v\n", pod.Name, got.CPUs, got.Mems, strings.Join(text, " "), promised.Certainty)
	if numa.Len() != 1 {
		c.t.Errorf("pod %s lies on NUMA nodes %v, want one", pod.Name, numa)
	}
	d := &promised.Decision.Containers[0]
	if promised.Certainty != wire.Exact {
		return
	}
	if d.CPUs != got.CPUs {
		c.t.Errorf("pod %s runs on CPUs %v, its Binding says %v", pod.Name, got.CPUs, d.CPUs)
	}
	for _, e := range held {
		var ids []string
		for _, h := range e.Devices {
			ids = append(ids, h.ID)
		}
		at := slices.IndexFunc(d.Devices, func(a placement.DeviceAllocation) bool { return a.Resource == e.Resource })
		if at < 0 || !slices.Equal(d.Devices[at].IDs, ids) {
			c.t.Errorf("pod %s holds %s %v, its Binding says %+v", pod.Name, e.Resource, ids, d.Devices)
		}
	}
}

// heldDevices reads the device manager's checkpoint in the guest.
func (c *cluster) heldDevices(m *Machine, uid string) ([]kubeletstate.DeviceEntry, error) {
	out, err := m.Guest.Run(c.t.Context(), "cat /var/lib/kubelet/"+kubeletstate.DeviceFile)
	if err != nil {
		return nil, err
	}
	state, err := kubeletstate.Read(fstest.MapFS{kubeletstate.DeviceFile: {Data: []byte(out)}})
	if err != nil {
		return nil, err
	}
	if state.Devices == nil {
		return nil, errors.New("no device checkpoint")
	}
	var mine []kubeletstate.DeviceEntry
	for _, e := range state.Devices.Entries {
		if e.PodUID == uid {
			mine = append(mine, e)
		}
	}
	return mine, nil
}
