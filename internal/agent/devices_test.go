package agent

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestLocateGPUs: for a pool with NVIDIA's order of preference, the agent finds the GPUs of the
// ids. It asks the driver only while a GPU is missing, and the error names the missing one.
func TestLocateGPUs(t *testing.T) {
	m := shapes.Machine(shapes.GPUServer)
	asked := 0
	driver := map[string]string{}
	var broken error
	b := newDeviceBook(nil, func() (map[string]string, error) { asked++; return driver, broken })
	pools := func() []placement.DevicePool {
		return []placement.DevicePool{
			{Resource: "example.com/other", Preference: placement.UnknownPreference, Devices: []placement.Device{{ID: "GPU-a"}}},
			{Resource: "example.com/parts", Preference: placement.NVIDIAPreference, Devices: []placement.Device{{ID: "MIG-1"}, {ID: "GPU-a::0"}, {ID: "GPU-a::1"}}},
			{Resource: "nvidia.com/gpu", Preference: placement.NVIDIAPreference, Devices: []placement.Device{{ID: "GPU-a"}, {ID: "GPU-b"}, {ID: "0000:3a:00.0"}}},
		}
	}
	err := b.locate(pools(), m)
	if err == nil || !strings.Contains(err.Error(), `nvidia.com/gpu: device "GPU-b"`) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	driver = map[string]string{"GPU-a": "0000:18:00.0", "GPU-b": "0000:77:00.0"}
	if err := b.locate(pools(), m); err == nil || !strings.Contains(err.Error(), "GPU-b") {
		t.Errorf("an address that the machine lacks: %v", err)
	}
	broken = errors.New("cannot be read")
	if err := b.locate(pools(), m); !errors.Is(err, broken) {
		t.Errorf("a driver that cannot be read: %v", err)
	}
	driver, broken = map[string]string{"GPU-a": "0000:18:00.0", "GPU-b": "0000:19:00.0"}, nil
	got := pools()
	if err := b.locate(got, m); err != nil {
		t.Error(err)
	}
	if got[0].Devices[0].Address != "" || got[1].Devices[1].Address != "0000:18:00.0" || got[1].Devices[2].Address != "0000:18:00.0" ||
		got[2].Devices[0].Address != "0000:18:00.0" || got[2].Devices[1].Address != "0000:19:00.0" || got[2].Devices[2].Address != "" {
		t.Errorf("got %+v", got)
	}
	asked = 0
	if err := b.locate(pools(), m); err != nil || asked > 0 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if got[2].Connect(m); len(got[2].Points) != 9 || got[2].Points[1] != 50 || got[2].Points[2] != 20 {
		t.Errorf("points %v", got[2].Points)
	}
	got[2].Devices[1].Address = ""
	if got[2].Connect(m); got[2].Points != nil {
		t.Errorf("points %v without an address", got[2].Points)
	}
}

// TestPluginWithTenThousandDevices: the kubelet's answer with so many devices is read in one pass.
// Each device is on two NUMA nodes, and on one that does not exist.
func TestPluginWithTenThousandDevices(t *testing.T) {
	var entries []*podresources.ContainerDevices
	for i := range 10_000 {
		for _, n := range []int64{0, 1, -1} {
			entries = append(entries, &podresources.ContainerDevices{ResourceName: "x.y/d", DeviceIds: []string{strconv.Itoa(i)},
				Topology: &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: n}}}})
		}
	}
	got := devicesOf(entries)["x.y/d"]
	want := placement.Device{ID: "9999", NUMA: topology.NewNUMASet(0, 1, noSuchNode), HasTopology: true}
	if len(got) != 10_000 || got[9999] != want {
		t.Errorf("%d devices, the last %+v, want %+v", len(got), got[len(got)-1], want)
	}
}
