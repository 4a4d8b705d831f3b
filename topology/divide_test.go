package topology

import (
	"fmt"
	"strings"
	"testing"
)

// TestDivide changes the NPS setting of a machine. The result is the machine that the string
// describes. After the change back, the NUMA nodes are the same as before.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		from, to string
		each     int
	}{
		{"package:2 numa:1 core:8 pu:2 mem:64Gi dist:10,32", "package:2 numa:4 core:2 pu:2 mem:16Gi dist:10,12,32", 4},
		{"package:2 numa:4 core:2 pu:2 mem:16Gi dist:10,12,32", "package:2 numa:1 core:8 pu:2 mem:64Gi dist:10,32", 1},
		{"package:1 numa:1 l3:4 core:2 pu:2 mem:64Gi dist:10", "package:1 numa:2 l3:2 core:2 pu:2 mem:32Gi dist:10,12", 2},
		{"package:1 numa:4 l3:1 core:2 pu:2 mem:16Gi dist:10,12", "package:1 numa:2 l3:2 core:2 pu:2 mem:32Gi dist:10,12", 2},
	} {
		from, err := Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		d, err := from.Divide(c.each)
		if err != nil {
			t.Errorf("%s by %d: %v", c.from, c.each, err)
			continue
		}
		if got, want := d.Machine.String(), want.String(); got != want {
			t.Errorf("%s by %d:\n got %s\nwant %s", c.from, c.each, got, want)
		}
	}
}

// TestDivideRefuses: the error says why the machine cannot be divided.
func TestDivideRefuses(t *testing.T) {
	for _, c := range []struct {
		machine string
		each    int
		want    string
	}{
		{"package:2 numa:1 core:8 pu:2", 0, "want at least 1"},
		{"package:2 numa:1 core:6 pu:2", 4, "the cores of package 0 cannot be divided evenly"},
		{"package:2 numa:1 core:8 pu:2", 33, "want at most 64 on the whole machine, which has 2 packages"},
	} {
		m, err := Parse(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Divide(c.each)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %d: error %v, want %q", c.machine, c.each, err, c.want)
		}
	}
}

// TestRehang: devices stay in their package, and are distributed in their order.
func TestRehang(t *testing.T) {
	m, err := Parse("package:2 numa:2 core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	for each, want := range map[int]string{
		1: "[0 0 0 1 1]", 2: "[0 0 1 2 3]", 4: "[0 1 2 4 6]",
	} {
		d, err := m.Divide(each)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.Rehang([]NUMAID{0, 0, 1, 2, 3})); got != want {
			t.Errorf("by %d: %s, want %s", each, got, want)
		}
	}
}
