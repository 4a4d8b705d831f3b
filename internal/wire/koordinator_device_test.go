package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestDeviceThereAndBack: the Device that is published for a machine can be read back.
func TestDeviceThereAndBack(t *testing.T) {
	for _, text := range []string{shapes.GPUMesh, shapes.GPUSwitched} {
		m := shapes.Machine(text)
		d := WriteDevice("n1", m)
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back koordinator.Device
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		got, bare, err := ReadDevice(&back, m)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Devices) != len(m.Devices) || len(bare) > 0 {
			t.Fatalf("%d devices, want %d", len(got.Devices), len(m.Devices))
		}
		for i := range got.Devices {
			g, w := &got.Devices[i], &m.Devices[i]
			if g.Address != w.Address || g.Root != w.Root || g.Switch != w.Switch || g.NUMA != w.NUMA || g.HasNUMA != w.HasNUMA || g.Physical != w.Physical {
				t.Errorf("got %+v, want %+v", g, w)
			}
		}
	}
	if d := WriteDevice("n1", shapes.Machine(shapes.GPUSwitched)); d.Spec.Devices[6].Topology.SocketID != 1 || *d.Spec.Devices[11].Minor != 3 {
		t.Errorf("got %+v", d.Spec.Devices[6].Topology)
	}
}

func TestReadDevice(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:1")
	const gpu = `"type":"gpu","minor":0,"health":true`
	for _, c := range []struct{ devices, want string }{
		{`{` + gpu + `,"topology":{"socketID":-1,"nodeID":1,"pcieID":"pci0000:3a","busID":"0000:3b:00.0"}}`, "dev:3b:00.0,030200,:,numa=1,root=3a"},
		{`{` + gpu + `,"topology":{"socketID":0,"nodeID":1,"pcieID":3,"busID":"00000000:3B:00.0"}}`, "dev:3b:00.0,030200,:,numa=1,root=3"},
		{`{` + gpu + `,"topology":{"socketID":0,"nodeID":-1,"pcieID":"3","busID":"0000:3b:00.0"}}`, "dev:3b:00.0,030200,:,root=3"},
		{`{"type":"rdma","minor":1,"id":"0000:1f:00.0","vfGroups":[{"vfs":[{"minor":-1,"busID":"0000:1f:00.2"}]}]}`, "dev:1f:00.0,020700,: dev:1f:00.2,020700,:,pf=1f:00.0"},
		{`{` + gpu + `,"topology":{"nodeID":2,"busID":"0000:3b:00.0"}}`, "!spec.devices[0].topology.nodeID"},
		{`{` + gpu + `,"topology":{"nodeID":-2,"busID":"0000:3b:00.0"}}`, "!want a NUMA node that the machine has, or -1"},
		{`{` + gpu + `,"topology":{"nodeID":65536,"busID":"0000:3b:00.0"}}`, "!spec.devices[0].topology.nodeID"},
		{`{` + gpu + `,"topology":{"pcieID":1.5}}`, "!pcieID: 1.5: want a string or a 32-bit integer"},
		{`{` + gpu + `,"topology":{"pcieID":[]}}`, "!want a string or a 32-bit integer"},
		{`{` + gpu + `,"id":"GPU-1"}`, "gpu 0 (GPU-1) on no known NUMA node"},
		{`{` + gpu + `,"id":"GPU-1","topology":{"socketID":1,"nodeID":1,"pcieID":"3"}}`, "gpu 0 (GPU-1) on NUMA node 1"},
		{`{` + gpu + `,"topology":{"socketID":-1,"nodeID":-1,"pcieID":""}}`, "gpu 0 on no known NUMA node"},
		{`{` + gpu + `,"topology":{"nodeID":1,"pcieID":""}},{"type":"rdma","minor":0,"id":"0000:1f:00.0"}`, "dev:1f:00.0,020700,:; gpu 0 on NUMA node 1"},
		{`{` + gpu + `,"id":"GPU-1"},{"type":"gpu","minor":1,"id":"GPU-1"}`, "!spec.devices[1].id: \"GPU-1\": want an id that no other device has; it is also at spec.devices[0].id"},
		{`{` + gpu + `,"id":"GPU-1","topology":{"nodeID":2}}`, "!spec.devices[0].topology.nodeID"},
		{`{` + gpu + `,"id":"GPU-1","vfGroups":[{"vfs":[{"minor":0,"busID":"0000:1f:00.1"}]}]}`, "!spec.devices[0].topology.busID"},
		{`{` + gpu + `,"id":"` + strings.Repeat("x", 300) + `"}`, "!at most 256 bytes"},
		{`{` + gpu + `,"id":"0000:3b:00"}`, "!spec.devices[0].id"},
		{`{` + gpu + `,"id":"GPU-1","topology":{"nodeID":1,"busID":"3b"}}`, "!spec.devices[0].topology.busID"},
		{`{"type":"gpu","id":"0000:3b:00.0"}`, "!spec.devices[0].minor: \"none\": want a number of at least 0"},
		{`{"type":"gpu","minor":-3,"id":"0000:3b:00.0"}`, "!spec.devices[0].minor: \"-3\": want a number of at least 0"},
		{`{"type":"tpu","minor":0}`, "!want gpu, rdma, fpga or xpu"},
		{`{` + gpu + `,"id":"0000:3b:00.0"},{` + gpu + `,"id":"0000:3c:00.0"}`, "!spec.devices[1].minor"},
		{`{` + gpu + `,"id":"0000:3b:00.0"},{"type":"rdma","minor":0,"id":"0000:3b:00.0"}`, "!an address that no other device has; it is also at spec.devices[0].id"},
		{`{"type":"rdma","minor":1,"id":"0000:1f:00.0","vfGroups":[{"vfs":[{"minor":0,"busID":"0000:1f:00.0"}]}]}`, "!spec.devices[0].vfGroups[0].vfs[0].busID"},
		{`{"type":"rdma","minor":1,"id":"0000:1f:00.0","vfGroups":[{"vfs":[{"minor":0,"busID":"0000:1f:00.1d"}]}]}`, "!want a PCI address such as"},
		{`{` + gpu + `,"topology":{"pcieID":"` + strings.Repeat("x", 300) + `","nodeID":-1}}`, "!at most 256 bytes"},
	} {
		var d koordinator.Device
		err := json.Unmarshal([]byte(`{"metadata":{"name":"n1"},"spec":{"devices":[`+c.devices+`]}}`), &d)
		got := ""
		if err == nil {
			hw, bare, readErr := ReadDevice(&d, m)
			if err = readErr; err == nil {
				got = hw.DeviceString()
				for _, b := range bare {
					got = strings.TrimPrefix(got+"; "+b.String(), "; ")
				}
			} else if fe := (*FieldError)(nil); !errors.As(err, &fe) {
				t.Errorf("%s: %v is no *FieldError", c.devices, err)
			}
		}
		if want, refused := strings.CutPrefix(c.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %s, %v, want ...%s...", c.devices, got, err, want)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.devices, got, err, c.want)
		}
	}
}

// FuzzReadDevice: every object gives a machine or an error.
func FuzzReadDevice(f *testing.F) {
	m := shapes.Machine(shapes.GPUSwitched)
	data, _ := json.Marshal(WriteDevice("n1", m))
	f.Add(string(data))
	f.Add(`{"spec":{"devices":[{"type":"gpu","minor":0,"topology":{"nodeID":1,"pcieID":7,"busID":"0000:3b:00.0"}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var d koordinator.Device
		if json.Unmarshal([]byte(text), &d) != nil {
			return
		}
		if got, _, err := ReadDevice(&d, m); err == nil && got.Check() != nil {
			t.Errorf("%s: %v", text, got.Check())
		}
	})
}
