package offer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

const sample = `
resources:
- resource: nvidia.com/gpu
  class: gpu
  vendor: "10de"
  cdi: {kind: nvidia.com/gpu, names: index}
- resource: example.com/vf
  class: rdma
  virtual: true
- resource: example.com/disk
  class: nvme
  addresses: ["0000:5e:00.0"]
- resource: example.com/fpga
  class: accelerator
  optional: true
`

// testMachine has two GPUs, an RDMA card with a virtual function, two disks and a console.
func testMachine(t *testing.T) *topology.Machine {
	t.Helper()
	m, err := topology.Parse("package:2 numa:1 core:4 pu:1 mem:4Gi " +
		"dev:0000:02:00.0,030000,1a03:2000,numa=0,root=00 " +
		"dev:0000:3b:00.0,030200,10de:2330,numa=0,root=3a,switch=3a:01.0 " +
		"dev:0000:3c:00.0,020700,15b3:1021,numa=0,root=3a,switch=3a:01.0,rdma=mlx5_0 " +
		"dev:0000:3c:00.1,020700,15b3:101e,numa=0,root=3a,switch=3a:01.0,pf=3c:00.0,rdma=mlx5_1 " +
		"dev:0000:5e:00.0,010802,144d:a80a,numa=0,root=5d " +
		"dev:0000:5f:00.0,010802,144d:a80a,numa=0,root=5d " +
		"dev:0000:bb:00.0,030200,10de:2330,numa=1,root=ba")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustRead(t *testing.T, doc string) *Config {
	t.Helper()
	c, err := Read("devices.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestResolve finds the devices of each resource.
func TestResolve(t *testing.T) {
	pools, err := mustRead(t, sample).Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pools {
		line := p.Resource
		for _, d := range p.Devices {
			line += " " + d.Address
		}
		got = append(got, line)
	}
	want := []string{"example.com/disk 0000:5e:00.0", "example.com/vf 0000:3c:00.1", "nvidia.com/gpu 0000:3b:00.0 0000:bb:00.0"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("got %q, want %q", got, want)
	}
	if i := pools[2].Devices[1].index; i != 1 {
		t.Errorf("the second GPU has index %d", i)
	}
}

// TestKeep: an offered device stays if it disappears from the machine, or no longer has an RDMA
// device. It does not stay if its address now has a device of another product.
func TestKeep(t *testing.T) {
	c := mustRead(t, `resources: [{resource: a.b/gpu, class: gpu, product: "2330", vendor: 10de}, {resource: a.b/vf, class: rdma, virtual: true}]`)
	before, err := c.Resolve(testMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	changed, other := *testMachine(t), []topology.Device(nil)
	for _, d := range changed.Devices {
		switch d.Address {
		case "0000:3b:00.0": // is gone
			continue
		case "0000:3c:00.1":
			d.RDMA = ""
		case "0000:bb:00.0":
			d.Product = "1111"
		}
		other = append(other, d)
	}
	changed.Devices = other
	var got []string
	pools, err := c.Resolve(c.Keep(&changed, before))
	for _, p := range pools {
		for _, d := range p.Devices {
			got = append(got, p.Resource+" "+d.Address)
		}
	}
	if want := "a.b/gpu 0000:3b:00.0, a.b/vf 0000:3c:00.1"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%q, %v; want %s", got, err, want)
	}
	if m := testMachine(t); c.Keep(m, before) != m {
		t.Error("a machine that has everything is another one")
	}
}

// TestKeepOfOneReading: a device may be read while it appears or disappears. It is then as in the
// next reading, or as before.
func TestKeepOfOneReading(t *testing.T) {
	c := mustRead(t, `resources: [{resource: a.b/pf, class: rdma}]`)
	was := testMachine(t)
	vf := slices.IndexFunc(was.Devices, func(d topology.Device) bool { return d.Physical != "" })
	if vf < 0 {
		t.Fatal("the machine has no virtual function")
	}
	is := func(change func(*topology.Device)) *topology.Machine {
		m := *was
		m.Devices = slices.Clone(was.Devices)
		change(&m.Devices[vf])
		return &m
	}
	offered := func(m *topology.Machine, before []Pool) []Pool {
		t.Helper()
		pools, err := c.Resolve(c.Keep(m, before))
		if err != nil {
			t.Fatal(err)
		}
		return pools
	}
	names := func(pools []Pool) (out []string) {
		for _, d := range pools[0].Devices {
			out = append(out, d.Address)
		}
		return out
	}
	right := names(offered(was, nil))
	wrong := offered(is(func(d *topology.Device) { d.Physical = "" }), nil) // as before its link physfn exists
	if len(names(wrong)) != len(right)+1 {
		t.Fatalf("the function is not taken for a physical one: %q", names(wrong))
	}
	if got := names(offered(was, wrong)); !slices.Equal(got, right) {
		t.Errorf("once its link was there: %q, want %q", got, right)
	}
	c = mustRead(t, `resources: [{resource: a.b/vf, class: rdma, virtual: true}]`)
	before := offered(was, nil)
	for name, gone := range map[string]func(*topology.Device){
		"nothing is read": func(d *topology.Device) { *d = topology.Device{Address: d.Address} },
		"no vendor":       func(d *topology.Device) { d.Vendor = "" },
		"no product":      func(d *topology.Device) { d.Product, d.Class = "", "" },
	} {
		if got := names(offered(is(gone), before)); !slices.Equal(got, names(before)) {
			t.Errorf("%s: %q, want %q", name, got, names(before))
		}
	}
}

// TestWrongConfigs: each error has the field, its value and what is wanted.
func TestWrongConfigs(t *testing.T) {
	r := func(more string) string { return "resources: [{resource: example.com/x, " + more + "}]" }
	for _, c := range []struct{ doc, field, says string }{
		{"", "resources", "1 to 64"},
		{"resources: []", "resources", "1 to 64"},
		{"resource: x", "resource", `did you mean "resources"`},
		{"resources: [{resource: gpu, class: gpu}]", "resources[0].resource", "example.com/gpu"},
		{"resources: [{resource: kubernetes.io/gpu, class: gpu}]", "resources[0].resource", "outside of kubernetes.io"},
		{"resources: [{resource: requests.x/gpu, class: gpu}]", "resources[0].resource", "extended resource"},
		{"resources: [{resource: a.b/x, class: gpu}, {resource: a.b/x, class: nic}]", "resources[1].resource", "each resource once"},
		{"resources: [{resource: koordinator.sh/gpu-core, class: gpu}]", "resources[0].resource", "koordinator.sh/gpu, which offers the same devices"},
		{"resources: [{resource: a.b/x-y, class: gpu}, {resource: a.b/x_y, class: nic}]", "resources[1].resource", "PCIDEVICE_A_B_X_Y"},
		{"resources: [{resource: example.com/x}]", "resources[0]", "class, vendor or addresses"},
		{r("class: gpus"), "resources[0].class", `did you mean "gpu"`},
		{r("class: gpu, clas: x"), "resources[0].clas", "a known field"},
		{r("vendor: 8086"), "resources[0].vendor", "string"},
		{r(`vendor: "0x10de"`), "resources[0].vendor", "four lowercase hexadecimal digits"},
		{r(`class: gpu, product: "2330"`), "resources[0].product", "vendor to be set too"},
		{r(`vendor: "10de", product: H100`), "resources[0].product", "four lowercase hexadecimal digits"},
		{r(`addresses: ["3b:00.0"]`), "resources[0].addresses[0]", "0000:3b:00.0"},
		{r(`addresses: ["0000:3b:00.0", "0000:3b:00.0"]`), "resources[0].addresses[1]", "a PCI address in lower case"},
		{r("class: gpu, cdi: {kind: nvidia, names: index}"), "resources[0].cdi.kind", "nvidia.com/gpu"},
		{r("class: gpu, cdi: {kind: berth.dev/pci, names: address}"), "resources[0].cdi.kind", "a vendor's"},
		{r("class: gpu, cdi: {kind: nvidia.com/gpu, names: indx}"), "resources[0].cdi.names", `did you mean "index"`},
		{r("class: gpu, cdi: {kind: nvidia.com/gpu}"), "resources[0].cdi.names", "address, index, uuid"},
		{strings.Repeat(" ", maxConfig+1), "document", "at most"},
	} {
		_, err := Read("devices.yaml", []byte(c.doc))
		wrong := (*wire.FieldError)(nil)
		if !errors.As(err, &wrong) || wrong.Field != c.field && !strings.Contains(err.Error(), c.field+":") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80q: %v, want %s: ... %s", c.doc, err, c.field, c.says)
		}
	}
}

// TestWrongMachines: the error names the entry that no device of this machine fits, and says which
// device or field is wanted.
func TestWrongMachines(t *testing.T) {
	for doc, says := range map[string]string{
		"resources: [{resource: a.b/x, class: accelerator}]":                                                          `resources[0]: "a.b/x": want a device of this machine`,
		"resources: [{resource: a.b/x, class: gpu}, {resource: a.b/y, vendor: \"10de\"}]":                             `resources[1]: "a.b/y": want devices of its own: 0000:3b:00.0 is one of a.b/x`,
		`resources: [{resource: a.b/x, addresses: ["0000:99:00.0"]}]`:                                                 `resources[0].addresses[0]: "0000:99:00.0": want the address of a device of this machine`,
		`resources: [{resource: a.b/x, class: gpu, addresses: ["0000:5e:00.0"]}]`:                                     `want a device that the other fields select: this one has class 010802 (NVMe) and PCI id 144d:a80a`,
		`resources: [{resource: a.b/x, addresses: ["0000:3c:00.1"]}]`:                                                 `want virtual: true, because this is a virtual function`,
		"resources: [{resource: a.b/v, class: nic, virtual: true}, {resource: a.b/p, class: nic}]":                    `want virtual functions only: 0000:3c:00.0, the physical function of 0000:3c:00.1, is offered as a.b/p`,
		"resources: [{resource: a.b/p, class: gpu, vendor: \"1a03\"}]":                                                `want a device of this machine; with optional: true the device may be missing`,
		"resources: [{resource: a.b/p, class: gpu, optional: true, vendor: \"1a03\", addresses: [\"0000:02:00.0\"]}]": "",
	} {
		pools, err := mustRead(t, doc).Resolve(testMachine(t))
		switch {
		case says == "" && (err != nil || len(pools) > 0):
			t.Errorf("%s: %v, %v, want none", doc, pools, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %s", doc, err, says)
		}
	}
	if pools, err := (*Config)(nil).Resolve(testMachine(t)); err != nil || pools != nil {
		t.Errorf("without a configuration: %v, %v; want no pools", pools, err)
	}
}

// FuzzRead: no document causes a panic. A document that is accepted names each resource once, and
// resolves each device into at most one pool, or returns an error.
func FuzzRead(f *testing.F) {
	f.Add(sample)
	f.Add("resources: [{resource: a.b/x, class: gpu, cdi: null, addresses: null}]")
	f.Add(`{"resources": [{"resource": "a.b/c", "vendor": "10de", "product": "2330", "optional": true}]}`)
	f.Add("resources: [null]")
	f.Fuzz(func(t *testing.T, doc string) {
		c, err := Read("devices.yaml", []byte(doc))
		if err != nil {
			return
		}
		pools, err := c.Resolve(testMachine(t))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, p := range pools {
			for _, d := range p.Devices {
				if seen[d.Address] || !c.Selects(d.Device) {
					t.Errorf("%s is in two pools, or in none", d.Address)
				}
				seen[d.Address] = true
			}
		}
	})
}
