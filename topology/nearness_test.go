package topology_test

import (
	"testing"

	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestNearness compares Nearness with the output of nvidia-smi on machines of the same kind.
func TestNearness(t *testing.T) {
	nested, err := topology.Parse("package:2 numa:1 l3:1 core:2 pu:1 mem:1Gi " +
		"dev:02:00.0|03:00.0,060400,1000:c010,numa=0,root=00,switch=01:00.0 " +
		"dev:04:00.0|05:00.0,030200,10de:2330,numa=0,root=00,switch=02:00.0 " +
		"dev:06:00.0,030200,10de:2330,numa=0,root=00,switch=03:00.0 " +
		"dev:07:00.0,030200,10de:2330,numa=0,root=00,switch=01:00.0 " +
		"dev:09:00.0,030200,10de:2330,numa=0,root=00 dev:0a:00.0,030200,10de:2330,numa=0 dev:0b:00.0,030200,10de:2330")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m    *topology.Machine
		a, b string
		want string
	}{
		{shapes.Machine(shapes.GPUServer), "18:00.0", "19:00.0", "PIX"},
		{shapes.Machine(shapes.GPUServer), "18:00.0", "3a:00.0", "NODE"},
		{shapes.Machine(shapes.GPUServer), "18:00.0", "9a:00.0", "SYS"},
		{shapes.Machine(shapes.GPUMesh), "06:00.0", "0a:00.0", "PHB"},
		{nested, "04:00.0", "05:00.0", "PIX"},
		{nested, "04:00.0", "06:00.0", "PXB"},
		{nested, "04:00.0", "07:00.0", "PXB"},
		{nested, "04:00.0", "09:00.0", "PHB"},
		{nested, "09:00.0", "0a:00.0", "NODE"},
		{nested, "09:00.0", "0b:00.0", "SYS"},
		{nested, "04:00.0", "04:00.0", "?"},
	} {
		near, ok := c.m.Nearness([]string{"0000:" + c.a, "0000:" + c.b})
		if !ok || near[1].String() != c.want || near[2] != near[1] {
			t.Errorf("%s and %s: %v, want %s", c.a, c.b, near, c.want)
		}
	}
	if _, ok := nested.Nearness([]string{"0000:ff:00.0"}); ok {
		t.Error("a device that the machine lacks: got a result, want false")
	}
	if topology.Nearness(200).String() != "?" {
		t.Error("a value without a name: want ?")
	}
}
