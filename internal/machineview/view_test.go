package machineview

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/golden"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

func printed(t *testing.T, print func(io.Writer, *topology.Machine) error, m *topology.Machine) string {
	t.Helper()
	var b strings.Builder
	if err := print(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func printJSON(w io.Writer, m *topology.Machine) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(NewDocument(m))
}

func printPCI(w io.Writer, m *topology.Machine) error {
	var tell func(list []Branch, indent string)
	tell = func(list []Branch, indent string) {
		for _, b := range list {
			fmt.Fprintln(w, indent+b.Text)
			tell(b.Below, indent+"  ")
		}
	}
	tell(PCI(m), "")
	return nil
}

func TestGolden(t *testing.T) {
	for name, print := range map[string]func(io.Writer, *topology.Machine) error{"table": Table, "tree": Tree, "json": printJSON, "pci": printPCI} {
		for shape, text := range map[string]string{
			"gpuserver": shapes.GPUServer, "gpumesh": shapes.GPUMesh, "gpuswitched": shapes.GPUSwitched, "xeonpmem": shapes.XeonPMEM, "hybrid": shapes.Hybrid,
			"nonuma": "package:2 core:2 pu:2 offline:7 number:packed packageid:none", "nocores": "cpu:0-2,9 numa:1=0-1 memonly:65000",
		} {
			golden.File(t, "testdata/"+shape+"."+name, printed(t, print, shapes.Machine(text)))
		}
	}
}

// TestDocumentedDrawing compares the drawing in the documentation with a new drawing.
func TestDocumentedDrawing(t *testing.T) {
	golden.File(t, "../../docs/images/gpu-server.svg", printed(t, SVG, shapes.Machine(shapes.GPUServer)))
}

// TestSVGShowsEverything counts the elements in the drawing of every shape.
func TestSVGShowsEverything(t *testing.T) {
	for name, text := range shapes.All() {
		m := shapes.Machine(text)
		svg := printed(t, SVG, m)
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for what, want := range map[string]int{
			`class="cpu"`: m.Online.Len(), `class="core"`: len(m.Cores), `class="l3"`: len(m.L3s), ">Package ": len(m.Packages), ">NUMA node ": len(m.NUMANodes),
		} {
			if got := strings.Count(svg, what); got != want {
				t.Errorf("%s: %d times %s, want %d", name, got, what, want)
			}
		}
		for i := range m.Devices {
			if d := &m.Devices[i]; notable(d) && d.Physical == "" && !strings.Contains(svg, d.Address) {
				t.Errorf("%s: device %s is not in the drawing", name, d.Address)
			}
		}
	}
}

func TestNothingFromACaptureReachesTheTerminalRaw(t *testing.T) {
	m := shapes.Machine("numa:1 core:1 pu:1 dev:00:01.0,020000,8086:0001,numa=0,root=r%1b%5b2J,name=%1b%5b2J%3C/svg%3E")
	for _, print := range []func(io.Writer, *topology.Machine) error{Table, Tree, SVG} {
		if out := printed(t, print, m); strings.ContainsAny(out, "\x1b") {
			t.Errorf("an escape in %q", out)
		}
	}
	if strings.Contains(printed(t, SVG, m), "2J</svg>") {
		t.Error("the name of a device is drawn as markup")
	}
}

// TestDevicesWithoutIDs: if vendor and product of a device are unknown, no empty ids are printed.
func TestDevicesWithoutIDs(t *testing.T) {
	m := shapes.Machine("numa:1 core:1 pu:1 dev:00:01.0,030200,10de:2330,numa=0,root=r")
	m.Devices[0].Vendor, m.Devices[0].Product = "", ""
	for name, print := range map[string]func(io.Writer, *topology.Machine) error{"table": Table, "tree": Tree, "svg": SVG} {
		for _, pair := range []string{" : ", "(:)"} {
			if out := printed(t, print, m); strings.Contains(out, pair) {
				t.Errorf("%s: %q in %s", name, pair, out)
			}
		}
	}
}

func TestCPUsAreShortAndParse(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"", ""}, {"0-3", "0-3"}, {"0,2,4,6", "0,2,4,6"},
		{"0,2,4,6,8,10,12,14,16", "0-16:1/2"}, {"0,2,4,6,8,10,12,14,16,64-80,99,109", "0-16:1/2,64-80,99,109"},
	} {
		set := shapes.CPUs(c.set)
		got := CPUList(&set)
		if back, err := topology.ParseCPUList(got); got != c.want || err != nil || back != set {
			t.Errorf("%s: %s, want %s (read again: %s, %v)", c.set, got, c.want, back, err)
		}
	}
}

func FuzzViews(f *testing.F) {
	for _, text := range shapes.All() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := topology.Parse(text)
		if err != nil {
			return
		}
		for _, print := range []func(io.Writer, *topology.Machine) error{Table, Tree, SVG, printJSON} {
			printed(t, print, m)
		}
		if got := strings.Count(printed(t, SVG, m), `class="cpu"`); got != m.Online.Len() {
			t.Fatalf("%d CPUs drawn of %d in %s", got, m.Online.Len(), text)
		}
	})
}
