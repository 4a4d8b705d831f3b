package agent

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
)

// holders returns the containers with devices in the last report, as "uid/container resource id".
func (w *world) holders() []string {
	w.t.Helper()
	n := w.last()
	var out []string
	for _, p := range n.Report.Snapshot.Pods {
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				for _, id := range d.IDs {
					out = append(out, p.UID+"/"+c.Name+" "+d.Resource+" "+id)
				}
			}
		}
	}
	return out
}

func (w *world) wantHolders(want ...string) {
	w.t.Helper()
	if got := w.holders(); !slices.Equal(got, want) {
		w.t.Errorf("holders %v, want %v", got, want)
	}
}

// onDevice returns a running pod whose container main requests a device. If first is set, so does
// its init container first.
func (w *world) onDevice(uid string, first bool) *corev1.Pod {
	pod := w.pod(uid, corev1.PodRunning)
	limits := corev1.ResourceList{"x.y/d": resource.MustParse("1"), "x.y/none": resource.MustParse("0"), "x.y/other": resource.MustParse("1"), "cpu": resource.MustParse("1")}
	pod.Spec.Containers[0].Resources.Limits = limits
	if first {
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Resources: corev1.ResourceRequirements{Limits: limits}}}
	}
	return pod
}

var bothDevices = map[string][]string{"x.y/d": {"d0", "d1"}}

func held(container, id string) []kubeletstate.DeviceEntry {
	return []kubeletstate.DeviceEntry{{Container: container, Resource: "x.y/d", Devices: []kubeletstate.HeldDevice{{ID: id, NUMA: 1}}}}
}

// TestAllocationThatTheCheckpointLacks: a plugin reports its devices while a pod gets one, and the
// kubelet last writes the data from before that.
func TestAllocationThatTheCheckpointLacks(t *testing.T) {
	w := newWorld(t)
	w.devices(bothDevices)
	w.settle()
	w.held = map[string][]kubeletstate.DeviceEntry{"ns/pod-a": held("main", "d0"), "ns/pod-b": held("main", "d1")}
	w.m.pods.see(w.onDevice("a", true), w.clock)
	w.admitted("a")
	w.settle()
	w.wantHolders("a/main x.y/d d0")
	w.cpus("0-7", nil)
	w.admitted("a", "c")
	w.see("c", corev1.PodRunning)
	w.settle()
	w.wantHolders("a/main x.y/d d0")
	if w.askedHeld != 1 {
		t.Errorf("the kubelet was asked %d times, want 1", w.askedHeld)
	}
	// Written again, with all data.
	w.allocated(bothDevices, `[{"PodUID":"a","ContainerName":"main","ResourceName":"x.y/d","DeviceIDs":{"0":["d0"]},"AllocResp":""}]`)
	w.settle()
	w.wantHolders("a/main x.y/d d0")
	if w.askedHeld != 1 {
		t.Errorf("the kubelet was asked %d times, want 1: nothing is lacking", w.askedHeld)
	}
	// The device goes from one pod to the next, and the write is lost.
	w.m.pods.lose(w.onDevice("a", true), w.clock)
	w.m.pods.see(w.onDevice("b", false), w.clock)
	w.held = map[string][]kubeletstate.DeviceEntry{"ns/pod-b": held("main", "d0")}
	w.admitted("b", "c")
	w.settle()
	w.wantHolders("b/main x.y/d d0")
	w.wantReady("Consistent", "")
}

// TestAllocationThatNobodyKnows: if a kubelet starts with a checkpoint that lacks an allocation,
// the allocation is lost, and the device is allocated again. While the kubelet starts, missing
// allocations do not count.
func TestAllocationThatNobodyKnows(t *testing.T) {
	w := newWorld(t)
	w.devices(bothDevices)
	w.m.pods.see(w.onDevice("a", false), w.clock)
	w.admitted("a")
	w.settle()
	w.wantHolders() // the kubelet could not be asked
	w.held = map[string][]kubeletstate.DeviceEntry{"ns/pod-a": held("main", "d0")}
	w.m.notice()
	w.settle()
	w.wantHolders("a/main x.y/d d0")
	w.m.restarted()
	w.held = map[string][]kubeletstate.DeviceEntry{"ns/pod-a": {}}
	w.settle()
	w.wantHolders("a/main x.y/d d0")
	w.clock = w.clock.Add(evidenceByTime)
	w.m.notice()
	w.settle()
	w.wantHolders()
}

func TestHeldOf(t *testing.T) {
	node := func(ids ...int64) *podresources.TopologyInfo {
		out := &podresources.TopologyInfo{}
		for _, id := range ids {
			out.Nodes = append(out.Nodes, &podresources.NUMANode{ID: id})
		}
		return out
	}
	pod := func(name string, devices ...*podresources.ContainerDevices) *podresources.PodResources {
		return &podresources.PodResources{Namespace: "ns", Name: name, Containers: []*podresources.ContainerResources{{Name: "main", Devices: devices}}}
	}
	got := heldOf([]*podresources.PodResources{
		pod("a", &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{"d1"}, Topology: node(1)}, &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{"d0"}, Topology: node(0)}, &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{"d0"}, Topology: node(1)}),
		pod("twice", &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{"d2"}}), pod("twice"), pod("twice", &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{"d3"}}),
		pod("none"),
	})
	want := map[string][]kubeletstate.DeviceEntry{
		"ns/a":     {{Container: "main", Resource: "x.y/d", Devices: []kubeletstate.HeldDevice{{ID: "d0", NUMA: 3}, {ID: "d1", NUMA: 2}}}},
		"ns/twice": nil,
		"ns/none":  {},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
