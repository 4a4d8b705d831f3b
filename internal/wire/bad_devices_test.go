package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// Bad input about devices: the clear parts are read, everything else is an error that names the
// field, and the rest of the object is still read.

// device returns a Koordinator Device with one GPU.
func device(t *testing.T, topology string) *koordinator.Device {
	t.Helper()
	var d koordinator.Device
	text := `{"metadata":{"name":"n1"},"spec":{"devices":[{"type":"gpu","minor":0,"topology":` + topology + `}]}}`
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// withDevices reads a NodeTopology whose spec.devices has the given text.
func withDevices(t *testing.T, text string) error {
	t.Helper()
	n := sampleNode(t)
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	nt.Spec.Devices = text
	_, err = ReadNodeTopology(nt)
	return err
}

// names reports whether an error is about a field.
func names(err error, field string, want ...string) bool {
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Field != field {
		return false
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

func TestDeviceOnNodeMinusOne(t *testing.T) {
	n := sampleNode(t)
	m, _, err := ReadDevice(device(t, `{"nodeID":-1,"busID":"0000:3b:00.0"}`), n.Spec.Machine)
	if err != nil || len(m.Devices) != 1 || m.Devices[0].HasNUMA {
		t.Errorf("got %v, want a device on no known node", err)
	}
	if err := withDevices(t, "dev:3b:00.0,030200,10de:2330"); err != nil {
		t.Errorf("a device without a node: %v", err)
	}
	if err := withDevices(t, "dev:3b:00.0,030200,10de:2330,numa=-1"); !names(err, "spec.devices") {
		t.Errorf("got %v", err)
	}
}

func TestDeviceOnMissingNode(t *testing.T) {
	n := sampleNode(t)
	if _, _, err := ReadDevice(device(t, `{"nodeID":9,"busID":"0000:3b:00.0"}`), n.Spec.Machine); !names(err, "spec.devices[0].topology.nodeID", "a NUMA node that the machine has") {
		t.Errorf("got %v", err)
	}
	if err := withDevices(t, "dev:3b:00.0,030200,10de:2330,numa=9"); !names(err, "spec.devices", "a NUMA node of this machine") {
		t.Errorf("got %v", err)
	}
	// A plugin may report this. The kubelet then knows no NUMA node of the device.
	n.Report.Snapshot.Devices = []placement.DevicePool{{Resource: "nvidia.com/gpu", Devices: []placement.Device{{ID: "a", NUMA: 1 << 40, HasTopology: true}, {ID: "b", NUMA: 2, HasTopology: true}}}}
	n.Report.Snapshot.Pods, n.Report.Pods = nil, nil
	n.Report.Snapshot.SharedCPUs = n.Spec.Machine.Online
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadNodeTopology(nt); err != nil || !reflect.DeepEqual(got.Report.Snapshot.Devices, n.Report.Snapshot.Devices) {
		t.Errorf("got %+v, %v", got.Report.Snapshot.Devices, err)
	}
}

func TestTwoDevicesOfOneAddress(t *testing.T) {
	n := sampleNode(t)
	d := device(t, `{"nodeID":0,"busID":"0000:3b:00.0"}`)
	d.Spec.Devices = append(d.Spec.Devices, d.Spec.Devices[0])
	d.Spec.Devices[1].Minor = new(*d.Spec.Devices[0].Minor + 1)
	if _, _, err := ReadDevice(d, n.Spec.Machine); !names(err, "spec.devices[1].topology.busID", "it is also at spec.devices[0].topology.busID") {
		t.Errorf("got %v", err)
	}
	if err := withDevices(t, "dev:3b:00.0|3b:00.0,030200,10de:2330"); !names(err, "spec.devices", "addresses in ascending order, each once") {
		t.Errorf("got %v", err)
	}
}

func TestCyclicPCITree(t *testing.T) {
	for _, text := range []string{
		"dev:3b:00.0,060400,10de:2330,switch=3b:00.0",
		"dev:3b:00.0,060400,10de:2330,switch=3c:00.0 dev:3c:00.0,060400,10de:2330,switch=3d:00.0 dev:3d:00.0,060400,10de:2330,switch=3b:00.0",
	} {
		if err := withDevices(t, text); !names(err, "spec.devices", "no cycle") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestPluginWithTenThousandDevices(t *testing.T) {
	n := sampleNode(t)
	pool := placement.DevicePool{Resource: "nvidia.com/gpu", Preference: placement.NVIDIAPreference}
	for i := range 10_000 {
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("GPU-%04d::%d", i/10, i%10), NUMA: topology.NewNUMASet(topology.NUMAID(i / 5000)), HasTopology: true})
	}
	n.Report.Snapshot.Devices, n.Report.Snapshot.Pods, n.Report.Pods = []placement.DevicePool{pool}, nil, nil
	n.Report.Snapshot.SharedCPUs = n.Spec.Machine.Online
	nt, err := WriteNodeTopology(&n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadNodeTopology(nt)
	if err != nil || !reflect.DeepEqual(got.Report.Snapshot.Devices, n.Report.Snapshot.Devices) {
		t.Fatalf("the devices do not come back as they were: %v", err)
	}
	m := made.ModelOf(t, n.Spec.View, placement.Config{Version: placement.V136, TopologyManagerPolicy: "restricted"})
	s := m.NewState()
	s.SetPool(got.Report.Snapshot.Devices[0])
	r := placement.Request{UID: "u", Containers: []placement.ContainerRequest{{Name: "main", Devices: []placement.DeviceRequest{{Resource: "nvidia.com/gpu", Count: 4999}}}}}
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() || len(d.Containers[0].Devices[0].IDs) != 4999 || d.Containers[0].Devices[0].IDs[0] != "GPU-0000::0" {
		t.Errorf("got %v", v)
	}
	s.Commit(&r, &d)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestLinkMatrixThatIsNotSymmetric(t *testing.T) {
	text := "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-1\nGPU1\tNV1\t X \t0-1\n"
	var wrong *topology.SMIError
	if _, err := topology.ParseSMI(text); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "the same in both directions") {
		t.Errorf("got %v", err)
	}
	const gpus = "dev:3b:00.0|3c:00.0,030200,10de:2330 "
	for _, links := range []string{"link:nvlink=1,3b:00.0+3c:00.0 link:nvlink=2,3c:00.0+3b:00.0", "link:nvlink=1,3b:00.0+3c:00.0|3c:00.0+3b:00.0"} {
		if err := withDevices(t, gpus+links); !names(err, "spec.devices", "each pair of devices once") {
			t.Errorf("%s: got %v", links, err)
		}
	}
}
