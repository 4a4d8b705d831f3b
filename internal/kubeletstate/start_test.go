package kubeletstate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// The kubelet of these tests has 8 CPUs, of which 0 is reserved, and 2 NUMA nodes with 90 bytes
// each.
func startup(change func(*placement.Startup)) *placement.Startup {
	s := &placement.Startup{Version: placement.V136, CPUPolicy: "static", MemoryPolicy: "Static", Reserved: topology.NewCPUSet(0)}
	for id := range topology.CPUID(8) {
		s.CPUs.Add(id)
	}
	for id := range topology.NUMAID(2) {
		s.Memory = append(s.Memory, placement.StartupMemory{NUMA: id, Resource: "memory", Total: 100, SystemReserved: 10, Allocatable: 90})
	}
	change(s)
	return s
}

// strictly sets strict CPU reservation, so that CPU 0 is in no pool.
func strictly(s *placement.Startup) {
	s.StrictReservation, s.CPUs = true, s.CPUs.AndNot(&s.Reserved)
}

// TestStartCPU: the kubelet's own checks, with its messages. make conformance-checkpoints compares
// them with the kubelet's code.
func TestStartCPU(t *testing.T) {
	asIs := func(*placement.Startup) {}
	none := func(s *placement.Startup) { s.CPUPolicy = "none" }
	in := func(v placement.Version) func(*placement.Startup) {
		return func(s *placement.Startup) { s.Version = v }
	}
	file := func(policy, shared, entries string) string {
		return fmt.Sprintf(`{"policyName":%q,"defaultCpuSet":%q,"entries":%s,"checksum":0}`, policy, shared, entries)
	}
	for _, tc := range []struct {
		name   string
		change func(*placement.Startup)
		text   string
		want   string // "": it starts
	}{
		{"as it left it", asIs, file("static", "0,3-7", `{"u":{"c":"1-2"}}`), ""},
		{"empty and new", asIs, file("static", "", `{}`), ""},
		{"containers of a pod share CPUs", asIs, file("static", "0,3-7", `{"u":{"init":"1","main":"1-2"}}`), ""},
		{"two pods share CPUs", asIs, file("static", "0,3-7", `{"u":{"c":"1-2"},"v":{"c":"2"}}`), ""},
		{"static, and the file is none's", asIs, file("none", "", `{}`), `configured policy "static" differs from state checkpoint policy "none"`},
		{"none, and the file is static's", none, file("static", "0-7", `{}`), `configured policy "none" differs from state checkpoint policy "static"`},
		{"none looks at no CPUs", none, file("none", "77", `{"u":{"c":"77"}}`), ""},
		{"none reads CPUs all the same", none, file("none", "a", `{}`), `could not parse default cpu set "a": strconv.Atoi: parsing "a": invalid syntax`},
		{"nothing shared", asIs, file("static", "", `{"u":{"c":"0-7"}}`), "default cpuset cannot be empty"},
		{"a pod without containers", asIs, file("static", "", `{"u":{}}`), "default cpuset cannot be empty"},
		{"a reserved CPU is held", asIs, file("static", "1-7", `{"u":{"c":"0"}}`), `not all reserved cpus: "0" are present in defaultCpuSet: "1-7"`},
		{"strict", strictly, file("static", "3-7", `{"u":{"c":"1-2"}}`), ""},
		{"strict, and the file is older", strictly, file("static", "0-7", `{}`), `some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"`},
		{"strict no more", asIs, file("static", "1-7", `{}`), `not all reserved cpus: "0" are present in defaultCpuSet: "1-7"`},
		{"shared and held", asIs, file("static", "0-7", `{"u":{"c":"1-2"}}`), `pod: u, container: c cpuset: "1-2" overlaps with default cpuset "0-7"`},
		{"a CPU is gone", asIs, file("static", "0-8", `{}`), `current set of available CPUs "0-7" doesn't match with CPUs in state "0-8"`},
		{"a CPU is new", asIs, file("static", "0-6", `{}`), `current set of available CPUs "0-7" doesn't match with CPUs in state "0-6"`},
		{"more CPUs than any machine has", asIs, file("static", "0-9223372036854775807", `{}`), `doesn't match with CPUs in state "0-9223372036854775807"`},
		{"no CPUs", asIs, file("static", "0-", `{}`), `could not parse default cpu set "0-": strconv.Atoi: parsing "": invalid syntax`},
		{"no CPUs, 1.37", in(placement.V137), file("static", "0-", `{}`), `could not parse default CPU set "0-"`},
		{"no CPUs of a container", asIs, file("static", "0", `{"u":{"c":"2-1"}}`), `could not parse cpuset "2-1" for container "c" in pod "u": invalid range "2-1" (2 > 1)`},
		{"no file any more", asIs, "", "unexpected end of JSON input"},
		{"cut off", asIs, `{"policyName":"sta`, "unexpected end of JSON input"},
		{"checksum", asIs, `{"policyName":"static","defaultCpuSet":"0-7","checksum":7}`, "checkpoint is corrupted"},
		{"checksum, with containers", asIs, `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"u":{"c":"1-2"}},"checksum":7}`,
			"json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"},
		{"checksum, with containers, 1.35", in(placement.V135), `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"u":{"c":"1-2"}},"checksum":7}`, "checkpoint is corrupted"},
		{"what it does not know", asIs, `{"policyName":"static","defaultCpuSet":"0-7","surprise":1,"checksum":0}`, ""},
		{"before 1.17", asIs, `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"abc":"1-2"},"checksum":0}`,
			"failed to migrate checkpoint from v1 to v2: containerID 'abc' not found in initial containers list"},
		{"before 1.17, 1.37", in(placement.V137), `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"abc":"1-2"},"checksum":0}`,
			"json: cannot unmarshal string into Go struct field CPUManagerCheckpointV2.entries of type map[string]string"},
		{"data of 1.37", in(placement.V137), fmt.Sprintf(`{"policyName":"static","data":%q,"dataChecksum":%d}`, file("static", "0-7", `{}`), sumText(file("static", "0-7", `{}`))), ""},
		{"corrupt data of 1.37", in(placement.V137), `{"policyName":"static","defaultCpuSet":"0-7","checksum":0,"data":"{}","dataChecksum":7}`, "could not load v4 checkpoint: checkpoint is corrupted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantStart(t, StartCPU(startup(tc.change), "/var/lib/kubelet", []byte(tc.text)), tc.want)
		})
	}
	if err := StartCPU(startup(asIs), "", nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

func wantStart(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got %v, want a kubelet that starts", err)
		}
		return
	}
	e, ok := errors.AsType[*StartError](err)
	if !ok || !strings.Contains(e.Messages()[0], want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	if text := e.Error(); !strings.Contains(text, "drain the node, stop the kubelet, delete /var/lib/kubelet/") || !strings.HasSuffix(text, ", start the kubelet") {
		t.Errorf("%q does not say what to do", text)
	}
}

func TestStartMemory(t *testing.T) {
	asIs := func(*placement.Startup) {}
	none := func(s *placement.Startup) { s.MemoryPolicy = "None" }
	node := func(assignments int, reserved, free uint64, cells string) string {
		return fmt.Sprintf(`{"numberOfAssignments":%d,"memoryMap":{"memory":{"total":100,"systemReserved":10,"allocatable":90,"reserved":%d,"free":%d}},"cells":%s}`, assignments, reserved, free, cells)
	}
	file := func(node0, node1, entries string) string {
		return fmt.Sprintf(`{"policyName":"Static","machineState":{"0":%s,"1":%s},"entries":%s,"checksum":0}`, node0, node1, entries)
	}
	const (
		onZero = `{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":30}]}}`
		onBoth = `{"u":{"c":[{"numaAffinity":[0,1],"type":"memory","size":100}]}}`
		mixed  = `{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":30}]},"v":{"c":[{"numaAffinity":[0,1],"type":"memory","size":100}]}}`
		differ = "[memorymanager] the expected machine state is different from the real one"
	)
	free0, free1 := node(0, 0, 90, "[0]"), node(0, 0, 90, "[1]")
	for _, tc := range []struct {
		name   string
		change func(*placement.Startup)
		text   string
		want   string // "": it starts
	}{
		{"as it left it", asIs, file(node(1, 30, 60, "[0]"), free1, onZero), ""},
		{"a group", asIs, file(node(1, 90, 0, "[0,1]"), node(1, 10, 80, "[0,1]"), onBoth), ""},
		{"a group, divided in another way", asIs, file(node(1, 50, 40, "[1,0]"), node(1, 50, 40, "[0,1]"), onBoth), ""},
		{"empty and new", asIs, `{"policyName":"Static","machineState":{},"checksum":0}`, ""},
		{"Static, and the file is None's", asIs, `{"policyName":"None","machineState":{},"checksum":0}`, `[memorymanager] configured policy "Static" differs from state checkpoint policy "None"`},
		{"None, and the file is Static's", none, file(free0, free1, "{}"), `[memorymanager] configured policy "None" differs from state checkpoint policy "Static"`},
		{"None looks at no memory", none, `{"policyName":"None","machineState":{"7":{}},"checksum":0}`, ""},
		{"nothing but containers", asIs, `{"policyName":"Static","machineState":{},"entries":` + onZero + `,"checksum":0}`, "machine state can not be empty when it has memory assignments"},
		{"not handed out", asIs, file(free0, free1, onZero), differ},
		{"not taken back", asIs, file(node(1, 30, 60, "[0]"), free1, "{}"), differ},
		{"more memory", func(s *placement.Startup) { s.Memory[1].Total++ }, file(free0, free1, "{}"), differ},
		{"more of it reserved", func(s *placement.Startup) { s.Memory[0].SystemReserved++ }, file(free0, free1, "{}"), differ},
		{"a NUMA node is gone", func(s *placement.Startup) { s.Memory = s.Memory[:1] }, file(free0, free1, "{}"), differ},
		{"a block on a node that is gone", func(s *placement.Startup) { s.Memory = s.Memory[1:] }, file(node(1, 30, 60, "[0]"), free1, onZero), "(pod: u, container: c) the memory assignment uses the NUMA that does not exist"},
		{"a block of huge pages that are gone", asIs, file(node(1, 30, 60, "[0]"), free1, strings.Replace(onZero, `"memory"`, `"hugepages-2Mi"`, 1)), "(pod: u, container: c) the memory assignment uses memory resource that does not exist"},
		{"mixed groups", asIs, file(node(2, 90, 0, "[0,1]"), node(1, 40, 50, "[0,1]"), mixed), differ},
		{"a null table", none, `{"policyName":"None","machineState":{"0":{"memoryMap":{"memory":null}}},"checksum":0}`, "nil pointer dereference"},
		{"a null table and another policy", asIs, `{"policyName":"None","machineState":{"0":{"memoryMap":{"memory":null}}},"checksum":0}`, "configured policy"},
		{"a null table and another policy, 1.37", func(s *placement.Startup) { s.Version = placement.V137 }, `{"policyName":"None","machineState":{"0":{"memoryMap":{"memory":null}}},"checksum":0}`, "nil pointer dereference"},
		{"a null node", asIs, file("null", free1, "{}"), "nil pointer dereference"},
		{"no checksum, 1.35", func(s *placement.Startup) { s.Version = placement.V135 }, file(free0, free1, "{}"), "checkpoint is corrupted"},
		{"checksum", asIs, strings.Replace(file(free0, free1, "{}"), `"checksum":0`, `"checksum":7`, 1), "checkpoint is corrupted"},
		{"no file any more", asIs, "", "unexpected end of JSON input"},
		{"corrupt data of 1.37", func(s *placement.Startup) { s.Version = placement.V137 }, `{"policyName":"Static","checksum":0,"data":"{}","dataChecksum":7}`, "could not load v3 checkpoint: checkpoint is corrupted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := StartMemory(startup(tc.change), "/var/lib/kubelet", []byte(tc.text))
			wantStart(t, err, tc.want)
			if e, _ := errors.AsType[*StartError](err); e != nil && e.Chance != (tc.name == "mixed groups") {
				t.Errorf("by chance: %t: %v", e.Chance, err)
			}
		})
	}
}

// TestStartInOrder: the CPU manager starts first. Both errors name the file.
func TestStartInOrder(t *testing.T) {
	s := startup(func(*placement.Startup) {})
	wrong := []byte(`{"policyName":"?","checksum":0}`)
	for _, tc := range []struct {
		raw  Raw
		want string
	}{{Raw{CPU: wrong, Memory: wrong}, "/r/cpu_manager_state"}, {Raw{Memory: wrong}, "/r/memory_manager_state"}} {
		e, _ := errors.AsType[*StartError](tc.raw.Start(s, "/r"))
		if e == nil || e.Path != tc.want || !strings.Contains(e.Messages()[0], fmt.Sprintf("delete the %s manager checkpoint file %q before restarting", e.manager, tc.want)) {
			t.Errorf("got %+v, want one about %s", e, tc.want)
		}
	}
	none := Raw{Devices: []byte("nonsense")}
	if err := none.Start(s, ""); err != nil {
		t.Errorf("over a file of devices: %v", err)
	}
}

func TestRootOf(t *testing.T) {
	for dir, want := range map[string]string{"/var/lib/k0s/kubelet/": "/var/lib/k0s/kubelet", "/tmp/copy": DefaultRoot, ".": DefaultRoot} {
		if got := RootOf(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

// TestRanges: a parsed set has the same elements as that of cpuset.CPUSet.
func TestRanges(t *testing.T) {
	for _, text := range []string{"", "0", "3,1,2", "0-3,2-5,7", "5-5", "+1", "0-0,1", "9,0-4,3"} {
		got, err := parseRanges(text)
		if err != nil {
			t.Fatal(err)
		}
		set, err := topology.ParseCPUList(strings.TrimPrefix(text, "+"))
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != set.String() || !slices.Equal(got, rangesOf(set)) {
			t.Errorf("%q: %v, want %v", text, got, set)
		}
		for _, other := range []string{"", "0", "2-4", "1,3,5,7"} {
			o, _ := parseRanges(other)
			oset, _ := topology.ParseCPUList(other)
			if both := set.And(&oset); got.and(o).merged().String() != both.String() || o.and(got).merged().String() != both.String() {
				t.Errorf("%q and %q: %v, want %v", text, other, got.and(o), both)
			}
		}
	}
}

// FuzzStart: no file causes a panic or takes long, and every error has advice.
func FuzzStart(f *testing.F) {
	for _, text := range []string{memoryText, `{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"u":{"app":"1-3"}},"checksum":0}`,
		`{"podEntries":{"u":{"cpuSet":"1-99999999999"}},"checksum":1}`, `{"data":"{\"machineState\":{\"0\":null}}","dataChecksum":1}`,
		`{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":100,"systemReserved":10,"allocatable":90,"reserved":30,"free":60}},"cells":[0,7]}},"entries":{"u":{"c":[{"numaAffinity":[0,7],"type":"memory","size":30}]}}}`} {
		f.Add([]byte(text), byte(placement.V136))
		f.Add([]byte(text), byte(placement.V133))
		f.Add([]byte(text), byte(placement.V137))
	}
	f.Fuzz(func(t *testing.T, data []byte, version byte) {
		s := startup(func(s *placement.Startup) { s.Version = placement.Version(version) })
		for _, err := range []error{StartCPU(s, "/r", data), StartMemory(s, "/r", data)} {
			if e, ok := err.(*StartError); err != nil && (!ok || e.Problem == "" || len(e.Error()) > 1000) {
				t.Errorf("got %v", err)
			}
		}
	})
}
