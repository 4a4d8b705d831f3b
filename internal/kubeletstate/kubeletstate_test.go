package kubeletstate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"
	spew "k8s.io/utils/dump"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// shared returns a path in the folder of real captures. Tests that need it are skipped if it is
// missing.
func shared(t testing.TB, elem ...string) string {
	root := os.Getenv("BERTH_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no captures of real nodes here: %v", err)
	}
	return path
}

// TestGenuineCPU reads files that real kubelets wrote. Every checksum matches, and a change of any
// byte is noticed.
func TestGenuineCPU(t *testing.T) {
	data, err := os.ReadFile(shared(t, "realdata", "k8s", "cpu_manager_state", "scenarios.json"))
	if err != nil {
		t.Fatal(err)
	}
	var records []struct {
		ID    string `json:"id"`
		State string `json:"cpu_manager_state"`
	}
	if err := json.Unmarshal(data, &records); err != nil {
		t.Fatal(err)
	}
	verified, legacy := 0, 0
	for _, r := range records {
		if r.State == "" {
			continue
		}
		s, err := ParseCPU(r.ID, []byte(r.State))
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		if err := s.Check(r.ID); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
		if s.Verified {
			verified++
		}
		if len(s.Legacy) > 0 {
			legacy++
		}
		forged := strings.Replace(r.State, `"defaultCpuSet":"`, `"defaultCpuSet":"99,`, 1)
		if _, err := ParseCPU(r.ID, []byte(forged)); s.Verified && !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: forged file: got error %v, want %v", r.ID, err, ErrChecksum)
		}
	}
	if verified < 26 {
		t.Errorf("%d files verified, want 26 at least", verified)
	}
	if legacy == 0 {
		t.Error("no file of the oldest format among the captures")
	}
}

func TestGenuineDevices(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared(t, "realdata", "k8s", "device_checkpoint"), "*.json"))
	if len(files) < 5 {
		t.Fatalf("%d files, want at least 5", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseDevices(file, data)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := s.Check(file); err != nil {
			t.Error(err)
		}
		if _, err := ParseDevices(file, []byte(strings.Replace(string(data), "nvidia", "nvidiA", 1))); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s forged: got error %v, want %v", file, err, ErrChecksum)
		}
	}
}

// The twin: the kubelet's types, dumped with the library that the kubelet uses. Only the package in
// their names differs, which twinSum corrects.
type (
	CPUManagerCheckpoint struct {
		PolicyName    string
		DefaultCPUSet string
		Entries       map[string]map[string]string
		PodEntries    PodCPUAssignments
		Checksum      Checksum
	}
	CPUManagerCheckpointV2 struct {
		PolicyName    string
		DefaultCPUSet string
		Entries       map[string]map[string]string
		Checksum      Checksum
	}
	PodCPUAssignments map[string]PodEntry
	PodEntry          struct{ CPUSet cpuset.CPUSet }
	Checksum          uint64

	MemoryManagerCheckpoint struct {
		PolicyName   string
		MachineState NUMANodeMap
		Entries      ContainerMemoryAssignments
		PodEntries   PodMemoryAssignments
		Checksum     Checksum
	}
	MemoryManagerCheckpointV1 struct {
		PolicyName   string
		MachineState NUMANodeMap
		Entries      ContainerMemoryAssignments
		Checksum     Checksum
	}
	NUMANodeMap                map[int]*NUMANodeState
	ContainerMemoryAssignments map[string]map[string][]Block
	PodMemoryAssignments       map[string]PodBlocks
	PodBlocks                  struct{ MemoryBlocks []Block }
	NUMANodeState              struct {
		NumberOfAssignments int
		MemoryMap           map[corev1.ResourceName]*MemoryTable
		Cells               []int
	}
	MemoryTable struct {
		TotalMemSize, SystemReserved, Allocatable, Reserved, Free uint64
	}
	Block struct {
		NUMAAffinity []int
		Type         corev1.ResourceName
		Size         uint64
	}

	checkpointData struct {
		PodDeviceEntries  []PodDevicesEntry
		RegisteredDevices map[string][]string
	}
	DevicesPerNUMA  map[int64][]string
	PodDevicesEntry struct {
		PodUID        string
		ContainerName string
		ResourceName  string
		DeviceIDs     DevicesPerNUMA
		AllocResp     []byte
	}
)

// twinSum dumps with the kubelet's library, corrects the names of the types and calculates the
// hash.
func twinSum(v any, pkg string) uint32 {
	text := strings.NewReplacer(
		"kubeletstate.Checksum", "checksum.Checksum",
		"kubeletstate.PodBlocks", "state.PodEntry",
		"CheckpointV2", "Checkpoint",
		"CheckpointV1", "Checkpoint",
		"kubeletstate.", pkg+".",
	).Replace(spew.ForHash(v))
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * prime
	}
	return h
}

// random makes values for the twins, with unusual names, and nil and empty containers.
type random struct{ *rand.Rand }

func (r random) word() string {
	words := []string{"", "a", "app", "0-3,8", "x y", "map[", "{}", "\"q\"", "<nil>", "memory", "hugepages-2Mi", "ümlaut", "%v", "-1"}
	return words[r.IntN(len(words))]
}

func randomMap[V any](r random, value func() V) map[string]V {
	n := r.IntN(5)
	if n == 0 {
		return nil
	}
	m := map[string]V{}
	for range n - 1 {
		m[r.word()] = value()
	}
	return m
}

func randomSlice[V any](r random, value func() V) []V {
	n := r.IntN(5)
	if n == 0 {
		return nil
	}
	s := []V{}
	for range n - 1 {
		s = append(s, value())
	}
	return s
}

func (r random) int() int     { return r.IntN(300) - 20 }
func (r random) size() uint64 { return r.Uint64() >> r.IntN(64) }
func (r random) block() memoryBlock {
	return memoryBlock{NUMAAffinity: randomSlice(r, r.int), Type: resourceName(r.word()), Size: r.size()}
}

// node sometimes returns nil, or nil tables.
func (r random) node() *memoryNode {
	if r.IntN(10) == 0 {
		return nil
	}
	n := &memoryNode{NumberOfAssignments: r.int(), Cells: randomSlice(r, r.int)}
	if tables := randomMap(r, r.table); tables != nil {
		n.MemoryMap = map[resourceName]*memoryTable{}
		for name, t := range tables {
			n.MemoryMap[resourceName(name)] = t
		}
	}
	return n
}

func (r random) table() *memoryTable {
	if r.IntN(10) == 0 {
		return nil
	}
	return &memoryTable{r.size(), r.size(), r.size(), r.size(), r.size()}
}

func TestChecksumOfCPUsAgainstTwin(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	for range 2000 {
		f := cpuFile{PolicyName: r.word(), DefaultCPUSet: r.word(),
			Entries:    randomMap(r, func() map[string]string { return randomMap(r, r.word) }),
			PodEntries: randomMap(r, func() podCPUEntry { return podCPUEntry{[]string{"", "3", "0-2,7", "1,64-66"}[r.IntN(4)]} })}
		v2 := &CPUManagerCheckpointV2{PolicyName: f.PolicyName, DefaultCPUSet: f.DefaultCPUSet, Entries: f.Entries}
		sum2, sum3 := f.sums(cpuTypeName, cpuTypeName)
		if got, want := sum2, twinSum(v2, "state"); got != want {
			t.Fatalf("v2: %d, want %d of\n%s", got, want, spew.ForHash(v2))
		}
		v3 := &CPUManagerCheckpoint{PolicyName: f.PolicyName, DefaultCPUSet: f.DefaultCPUSet, Entries: f.Entries}
		if f.PodEntries != nil {
			v3.PodEntries = PodCPUAssignments{}
		}
		for uid, e := range f.PodEntries {
			set, err := cpuset.Parse(e.CPUSet)
			if err != nil {
				t.Fatal(err)
			}
			v3.PodEntries[uid] = PodEntry{set}
		}
		if got, want := sum3, twinSum(v3, "state"); got != want {
			t.Fatalf("v3: %d, want %d of\n%s", got, want, spew.ForHash(v3))
		}
	}
}

func TestChecksumOfMemoryAgainstTwin(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range 2000 {
		f := memoryFile{PolicyName: r.word(),
			Entries: randomMap(r, func() map[string][]memoryBlock {
				return randomMap(r, func() []memoryBlock { return randomSlice(r, r.block) })
			}),
			PodEntries: randomMap(r, func() podMemoryEntry { return podMemoryEntry{randomSlice(r, r.block)} })}
		for range r.IntN(4) {
			if f.MachineState == nil {
				f.MachineState = memoryNodes{}
			}
			f.MachineState[r.int()] = r.node()
		}
		v2 := twinMemory(&f)
		sum1, sum2 := f.sums(memoryTypeName)
		if got, want := sum2, twinSum(v2, "state"); got != want {
			t.Fatalf("v2: %d, want %d of\n%s", got, want, spew.ForHash(v2))
		}
		v1 := &MemoryManagerCheckpointV1{v2.PolicyName, v2.MachineState, v2.Entries, 0}
		if got, want := sum1, twinSum(v1, "state"); got != want {
			t.Fatalf("v1: %d, want %d of\n%s", got, want, spew.ForHash(v1))
		}
	}
}

func twinMemory(f *memoryFile) *MemoryManagerCheckpoint {
	out := &MemoryManagerCheckpoint{PolicyName: f.PolicyName}
	if f.MachineState != nil {
		out.MachineState = NUMANodeMap{}
	}
	for id, n := range f.MachineState {
		if n == nil {
			out.MachineState[id] = nil
			continue
		}
		node := &NUMANodeState{NumberOfAssignments: n.NumberOfAssignments, Cells: n.Cells}
		if n.MemoryMap != nil {
			node.MemoryMap = map[corev1.ResourceName]*MemoryTable{}
		}
		for k, v := range n.MemoryMap {
			if v == nil {
				node.MemoryMap[corev1.ResourceName(k)] = nil
				continue
			}
			node.MemoryMap[corev1.ResourceName(k)] = &MemoryTable{v.Total, v.SystemReserved, v.Allocatable, v.Reserved, v.Free}
		}
		out.MachineState[id] = node
	}
	if f.Entries != nil {
		out.Entries = ContainerMemoryAssignments{}
	}
	for uid, m := range f.Entries {
		out.Entries[uid] = nil
		if m != nil {
			out.Entries[uid] = map[string][]Block{}
		}
		for c, blocks := range m {
			out.Entries[uid][c] = twinBlocks(blocks)
		}
	}
	if f.PodEntries != nil {
		out.PodEntries = PodMemoryAssignments{}
	}
	for uid, e := range f.PodEntries {
		out.PodEntries[uid] = PodBlocks{twinBlocks(e.MemoryBlocks)}
	}
	return out
}

func twinBlocks(blocks []memoryBlock) []Block {
	if blocks == nil {
		return nil
	}
	out := []Block{}
	for _, b := range blocks {
		out = append(out, Block{b.NUMAAffinity, corev1.ResourceName(b.Type), b.Size})
	}
	return out
}

func TestChecksumOfDevicesAgainstTwin(t *testing.T) {
	r := random{rand.New(rand.NewPCG(5, 6))}
	for range 2000 {
		var d deviceData
		d.RegisteredDevices = randomMap(r, func() []string { return randomSlice(r, r.word) })
		d.PodDeviceEntries = randomSlice(r, func() deviceEntry {
			e := deviceEntry{PodUID: r.word(), ContainerName: r.word(), ResourceName: r.word()}
			e.AllocResp = randomSlice(r, func() byte { return byte(r.IntN(256)) })
			for range r.IntN(4) {
				if e.DeviceIDs == nil {
					e.DeviceIDs = map[int64][]string{}
				}
				e.DeviceIDs[int64(r.int())] = randomSlice(r, r.word)
			}
			return e
		})
		twin := checkpointData{RegisteredDevices: d.RegisteredDevices}
		if d.PodDeviceEntries != nil {
			twin.PodDeviceEntries = []PodDevicesEntry{}
		}
		for _, e := range d.PodDeviceEntries {
			twin.PodDeviceEntries = append(twin.PodDeviceEntries, PodDevicesEntry(twinEntry(e)))
		}
		if got, want := sumDevices(&d), twinSum(twin, "checkpoint"); got != want {
			t.Fatalf("%d, want %d of\n%s", got, want, spew.ForHash(twin))
		}
	}
}

func twinEntry(e deviceEntry) PodDevicesEntry {
	return PodDevicesEntry{e.PodUID, e.ContainerName, e.ResourceName, e.DeviceIDs, e.AllocResp}
}

func TestChecksumOfText(t *testing.T) {
	for _, s := range []string{"", "{\"a\":1}", "x y"} {
		if got, want := sumText(s), twinSum(s, ""); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

const (
	memoryText   = `{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":100,"systemReserved":10,"allocatable":90,"reserved":30,"free":60}},"cells":[0]}},"entries":{"u":{"app":[{"numaAffinity":[0],"type":"memory","size":30}]}},"checksum":0}`
	admittedText = `{"data":"{\"entries\":{\"u-2\":{\"ContainerResources\":{}},\"u-1\":{\"ContainerResources\":{\"c\":{}}}}}","checksum":%d}`
	devicesText  = `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":%d}`
)

// TestReadFile: the path of a checkpoint is not a folder of checkpoints.
func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), CPUFile)
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRaw(os.DirFS(file)); err == nil || !strings.Contains(err.Error(), "this is a file: want the folder that contains it, such as /var/lib/kubelet") {
		t.Error(err)
	}
}

func TestReadDirectory(t *testing.T) {
	fsys := fstest.MapFS{
		CPUFile:    {Data: []byte(`{"policyName":"none","defaultCpuSet":"","checksum":0}`)},
		MemoryFile: {Data: []byte(memoryText)},
	}
	s, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if s.CPU == nil || s.Memory == nil || s.Devices != nil {
		t.Errorf("got %+v, want CPU and memory state and no devices", s)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	n := s.Memory.Nodes[0]
	if n.Assignments != 1 || n.Resources[0].Free != 60 || n.Totals["memory"] != 100 {
		t.Errorf("node 0 is %+v", n)
	}
}

func TestAdmitted(t *testing.T) {
	var file admittedFile
	if err := json.Unmarshal([]byte(strings.Replace(admittedText, "%d", "0", 1)), &file); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(admittedText, sumText(file.Data))
	s, err := ParseAdmitted("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Has("u-1") || !s.Has("u-2") || s.Has("u-3") {
		t.Errorf("got %v, want u-1 and u-2", s.UIDs)
	}
	if _, err := ParseAdmitted("f", []byte(strings.Replace(text, "u-1", "u-9", 1))); !errors.Is(err, ErrChecksum) {
		t.Errorf("forged: got error %v, want %v", err, ErrChecksum)
	}
}

// TestOldFormats: files of older formats have the meaning that a kubelet gives them. Pod-level
// assignments count only in the format whose checksum covers them.
func TestOldFormats(t *testing.T) {
	const cpus = `"policyName":"static","defaultCpuSet":"0,3-7","entries":{"u":{"c":"1-2"}}`
	const memory = `"policyName":"Static","machineState":{},"entries":{"u":{"c":[{"numaAffinity":[0],"type":"memory","size":30}]}}`
	const podCPUs, podMemory = `,"podEntries":{"p":{"cpuSet":"5"}}`, `,"podEntries":{"p":{"memoryBlocks":[{"numaAffinity":[1],"type":"memory","size":1}]}}`
	in, book := newCPUFile(), newMemoryFile()
	if err := cmp.Or(decode([]byte("{"+cpus+podCPUs+"}"), &in), decode([]byte("{"+memory+podMemory+"}"), &book)); err != nil {
		t.Fatal(err)
	}
	c2, c3 := in.sums(cpuTypeName, cpuTypeName)
	own2, own3 := in.sums("CPUManagerCheckpointV2", "CPUManagerCheckpointV3")
	m1, m2 := book.sums(memoryTypeName)
	ownM1, _ := book.sums("MemoryManagerCheckpointV1")
	for _, tc := range []struct {
		name, file     string
		sum            uint32
		pods, verified bool
	}{
		{"v2", cpus, c2, false, true},
		{"v2 with the name of its type", cpus, own2, false, true},
		{"v2 of before checksums", cpus, 0, false, false},
		{"v2, and pods that its checksum does not cover", cpus + podCPUs, c2, false, true},
		{"no checksum, and pods", cpus + podCPUs, 0, false, false},
		{"v3", cpus + podCPUs, c3, true, true},
		{"v3 with the name of its type", cpus + podCPUs, own3, true, true},
		{"v2 with empty fields of v4", cpus + `,"data":"","dataChecksum":0`, c2, false, true},
		{"memory v1", memory, m1, false, true},
		{"memory v1 with the name of its type", memory, ownM1, false, true},
		{"memory v1 of before checksums", memory, 0, false, false},
		{"memory v1, and pods that its checksum does not cover", memory + podMemory, m1, false, true},
		{"memory, no checksum, and pods", memory + podMemory, 0, false, false},
		{"memory v2", memory + podMemory, m2, true, true},
		{"memory v1 with empty fields of v3", memory + `,"data":"","dataChecksum":0`, m1, false, true},
	} {
		text := []byte(fmt.Sprintf(`{%s,"checksum":%d}`, tc.file, tc.sum))
		var entries, pods int
		var verified bool
		var err error
		if strings.HasPrefix(tc.name, "memory") {
			var s *MemoryState
			if s, err = ParseMemory("f", text); err == nil {
				entries, pods, verified = len(s.Entries), len(s.PodEntries), s.Verified
			}
		} else {
			var s *CPUState
			if s, err = ParseCPU("f", text); err == nil {
				entries, pods, verified = len(s.Entries), len(s.PodEntries), s.Verified
			}
		}
		if err != nil || entries != 1 || pods == 1 != tc.pods || verified != tc.verified {
			t.Errorf("%s: %v, %d entries, %d of pods, verified %t: want 1, %t, %t", tc.name, err, entries, pods, verified, tc.pods, tc.verified)
		}
	}
	for name, text := range map[string]string{
		"a checksum of data that is not there": `{` + cpus + fmt.Sprintf(`,"checksum":%d,"dataChecksum":7}`, c2),
	} {
		if _, err := ParseCPU("f", []byte(text)); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const noPods = `{"Data":{"RegisteredDevices":{}},"Checksum":%d}`
	if _, err := ParseDevices("f", []byte(fmt.Sprintf(noPods, sumDevices(&deviceData{PodDeviceEntries: []deviceEntry{}, RegisteredDevices: map[string][]string{}})))); err != nil {
		t.Error(err)
	}
	const v1 = `{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"x/y","DeviceIDs":["a"],"AllocResp":""}],"RegisteredDevices":{"x/y":["a"]}},"Checksum":1}`
	if _, err := ParseDevices("f", []byte(v1)); err == nil || !strings.Contains(err.Error(), "a kubelet that starts ignores this file") {
		t.Errorf("devices of before 1.20: %v", err)
	}
}

// TestNewerFormat reads the double format of Kubernetes 1.37, in which the data string counts.
func TestNewerFormat(t *testing.T) {
	inner := `{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"app":"4-5"}},"baselines":{"u":{"app":{"baseline":"4"}}}}`
	text, err := json.Marshal(map[string]any{"policyName": "static", "defaultCpuSet": "7", "checksum": 1, "data": inner, "dataChecksum": sumText(inner)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseCPU("f", text)
	if err != nil {
		t.Fatal(err)
	}
	if s.Shared.String() != "0-3" || len(s.Entries) != 1 {
		t.Errorf("got %+v, want what the data string says", s)
	}
	if _, err := ParseCPU("f", []byte(strings.Replace(string(text), "0-3", "0-4", 1))); !errors.Is(err, ErrChecksum) {
		t.Errorf("forged data: got error %v, want %v", err, ErrChecksum)
	}
}

func TestBadInput(t *testing.T) {
	cpu := func(data []byte) error {
		s, err := ParseCPU("f", data)
		if err != nil {
			return err
		}
		return s.Check("f")
	}
	memory := func(data []byte) error {
		s, err := ParseMemory("f", data)
		if err != nil {
			return err
		}
		return s.Check("f")
	}
	devices := func(data []byte) error { _, err := ParseDevices("f", data); return err }
	for _, tc := range []struct {
		name, text, want string
		read             func([]byte) error
	}{
		{"empty", "", "f: the file is empty: want the JSON of a cpu_manager_state", cpu},
		{"blank", "\n", "f: the file is empty: want the JSON of a kubelet_internal_checkpoint", devices},
		{"empty data", `{"data":"","dataChecksum":441364273}`, "f: data: the file is empty", memory},
		{"truncated", `{"policyName":"sta`, "unexpected EOF", cpu},
		{"two values", `{"policyName":""}{}`, "after the JSON value", cpu},
		{"a bracket too many", `{"policyName":""}}`, "after the JSON value, which ends at offset 17", cpu},
		{"the end of a longer file", `{"policyName":""}]{"defaultCpuSet":"0-`, "after the JSON value", cpu},
		{"blanks and another value", "{}\n\n1", "after the JSON value", cpu},
		{"unknown field", `{"policyName":"","surprise":1}`, "surprise", cpu},
		{"no list", `{"defaultCpuSet":"0-"}`, "defaultCpuSet", cpu},
		{"huge CPU", `{"defaultCpuSet":"4000000000"}`, "too large", cpu},
		{"wrong checksum", `{"defaultCpuSet":"0-3","checksum":7}`, "checksum does not match", cpu},
		{"shared and exclusive", `{"defaultCpuSet":"0-3","entries":{"u":{"c":"3"}}}`, "entries[u][c]", cpu},
		{"nothing shared", `{"policyName":"static","entries":{"u":{"c":"3"}}}`, "default cpuset cannot be empty", cpu},
		{"exclusive twice", `{"entries":{"u":{"c":"3"},"v":{"d":"3"}}}`, "entries[v][d]", cpu},
		{"NUMA id", `{"machineState":{"64":{}}}`, "machineState[64]", memory},
		{"null node", `{"machineState":{"0":null}}`, "machineState[0]", memory},
		{"null table", `{"machineState":{"0":{"memoryMap":{"memory":null},"cells":[0]}}}`, "machineState[0].memoryMap[memory]", memory},
		{"negative size", `{"machineState":{"0":{"memoryMap":{"memory":{"free":-1}}}}}`, "cannot unmarshal", memory},
		{"foreign group", `{"machineState":{"0":{"cells":[1]}}}`, "machineState[0].cells", memory},
		{"rows", strings.Replace(memoryText, `"free":60`, `"free":61`, 1), `machineState[0].memoryMap[memory]: "30 reserved + 61 free, 90 allocatable": want reserved + free = allocatable`, memory},
		{"no nodes", `{"entries":{"u":{"c":[{"numaAffinity":[],"type":"memory","size":1}]}}}`, "entries[u][c][0].numaAffinity", memory},
		{"no checksum", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}}}`, "checksum does not match", devices},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.read([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "f") {
				t.Errorf("got error %v, want one about file f that says %s", err, tc.want)
			}
		})
	}
}

// TestReuseIsNoContradiction: an init container's CPUs are also listed for a later container of its
// pod.
func TestReuseIsNoContradiction(t *testing.T) {
	s, err := ParseCPU("f", []byte(`{"defaultCpuSet":"0","entries":{"u":{"app":"3-4","init":"3"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check("f"); err != nil {
		t.Error(err)
	}
}

func TestFileTooLarge(t *testing.T) {
	_, err := Read(fstest.MapFS{CPUFile: {Data: make([]byte, MaxFileBytes+1)}})
	if e := (*Error)(nil); !errors.As(err, &e) || e.File != CPUFile {
		t.Errorf("got %v, want an error about the size of %s", err, CPUFile)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"u":{"app":"1-3"}},"checksum":0}`))
	f.Add([]byte(memoryText))
	f.Add([]byte(devicesText))
	f.Add([]byte(admittedText))
	f.Add([]byte(`{"podEntries":{"u":{"cpuSet":"1"}},"data":"{}","dataChecksum":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseCPU("f", data); err == nil {
			_ = s.Check("f")
		}
		if s, err := ParseMemory("f", data); err == nil {
			_ = s.Check("f")
		}
		if s, err := ParseDevices("f", data); err == nil {
			_ = s.Check("f")
		}
		_, _ = ParseAdmitted("f", data)
	})
}

func TestSnapshot(t *testing.T) {
	cpu, err := ParseCPU("f", []byte(`{"policyName":"static","defaultCpuSet":"0-1","entries":{"u":{"b":"3","a":"2"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := ParseMemory("f", []byte(memoryText))
	if err != nil {
		t.Fatal(err)
	}
	s := State{CPU: cpu, Memory: memory, Devices: &DeviceState{
		Registered: map[string][]string{"x.y/d": {"d0", "d2"}},
		Entries:    []DeviceEntry{{"v", "c", "x.y/d", []HeldDevice{{"d1", 2}, {"d2", 1}}}},
	}}
	got, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	want := placement.Snapshot{
		SharedCPUs: topology.NewCPUSet(0, 1),
		Memory: []placement.MemoryTable{{NUMA: 0, Assignments: 1, Cells: 1, Resources: []placement.MemoryAmounts{
			{Resource: "memory", Allocatable: 90, Reserved: 30, Free: 60},
		}}},
		Devices: []placement.DevicePool{{Resource: "x.y/d", Preference: placement.UnknownPreference, Devices: []placement.Device{
			{ID: "d0"}, {ID: "d1", NUMA: 2, HasTopology: true, Unhealthy: true}, {ID: "d2", NUMA: 1, HasTopology: true},
		}}},
		Pods: []placement.PodAllocation{
			{UID: "u", Containers: []placement.ContainerAllocation{
				{Name: "a", CPUs: topology.NewCPUSet(2)},
				{Name: "app", Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 30}}},
				{Name: "b", CPUs: topology.NewCPUSet(3)},
			}},
			{UID: "v", Containers: []placement.ContainerAllocation{{Name: "c", Devices: []placement.DeviceAllocation{{Resource: "x.y/d", IDs: []string{"d1", "d2"}}}}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestSnapshotOfWholes: resources of a pod as a whole, parts of which several of its containers may
// have.
func TestSnapshotOfWholes(t *testing.T) {
	blocks := []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: 30}}
	s := State{CPU: &CPUState{Policy: "static", Shared: topology.NewCPUSet(0), Entries: []CPUEntry{{"u", "a", topology.NewCPUSet(1, 2)}, {"u", "b", topology.NewCPUSet(1, 2)}},
		PodEntries: []CPUEntry{{PodUID: "u", CPUs: topology.NewCPUSet(1, 2, 3)}}},
		Memory: &MemoryState{Policy: "Static", Entries: []MemoryEntry{{"u", "a", blocks}}, PodEntries: []MemoryEntry{{PodUID: "u", Blocks: blocks}}}}
	got, err := s.Snapshot()
	want := []placement.PodAllocation{{UID: "u", Whole: &placement.Whole{CPUs: topology.NewCPUSet(1, 2, 3), Memory: blocks}, Containers: []placement.ContainerAllocation{
		{Name: "a", CPUs: topology.NewCPUSet(1, 2), Memory: blocks}, {Name: "b", CPUs: topology.NewCPUSet(1, 2)}}}}
	if err != nil || !reflect.DeepEqual(got.Pods, want) {
		t.Errorf("%v: got %+v, want %+v", err, got.Pods, want)
	}
	if err := s.CPU.Check("f"); err != nil {
		t.Error(err)
	}
	s.CPU.Entries = append(s.CPU.Entries, CPUEntry{"v", "c", topology.NewCPUSet(3)})
	if err := s.CPU.Check("f"); err == nil || !strings.Contains(err.Error(), "entries[v][c]") {
		t.Errorf("another pod's CPU: %v", err)
	}
	s.CPU.Entries, s.CPU.Shared = s.CPU.Entries[:2], topology.NewCPUSet(0, 3)
	if err := s.CPU.Check("f"); err == nil || !strings.Contains(err.Error(), "podEntries[u]") {
		t.Errorf("a shared CPU: %v", err)
	}
}

func TestSnapshotRefuses(t *testing.T) {
	for _, s := range []State{
		{CPU: &CPUState{Legacy: []CPUEntry{{Container: "c"}}}},
	} {
		var e *Error
		if _, err := s.Snapshot(); !errors.As(err, &e) {
			t.Errorf("%+v: got error %v, want an *Error", s, err)
		}
	}
}

func TestView(t *testing.T) {
	node := func(resource string, total uint64) *MemoryState {
		return &MemoryState{Nodes: []MemoryNode{{
			MemoryTable: placement.MemoryTable{NUMA: 3, Resources: []placement.MemoryAmounts{{Resource: resource}}},
			Totals:      map[string]uint64{resource: total},
		}}}
	}
	for _, tc := range []struct {
		state *MemoryState
		want  placement.ViewNode
		ok    bool
	}{
		{node("memory", 77), placement.ViewNode{ID: 3, MemoryBytes: 77}, true},
		{node("hugepages-2Mi", 6<<20), placement.ViewNode{ID: 3, MemoryBytes: 5, HugePages: []topology.HugePages{{PageBytes: 2 << 20, Count: 3}}}, true},
		{node("hugepages-64Ki", 64<<10), placement.ViewNode{ID: 3, MemoryBytes: 5, HugePages: []topology.HugePages{{PageBytes: 64 << 10, Count: 1}}}, true},
		{node("hugepages-1Gi", 0), placement.ViewNode{ID: 3, MemoryBytes: 5, HugePages: []topology.HugePages{{PageBytes: 1 << 30}}}, true},
		{node("hugepages-0", 0), placement.ViewNode{}, false},
		{node("hugepages-x", 0), placement.ViewNode{}, false},
		{node("disk", 0), placement.ViewNode{}, false},
	} {
		view := &placement.KubeletView{Nodes: []placement.ViewNode{{ID: 3, MemoryBytes: 5}}}
		err := tc.state.View(view)
		if (err == nil) != tc.ok || tc.ok && !reflect.DeepEqual(view.Nodes[0], tc.want) {
			t.Errorf("%+v: got %+v, error %v", tc.state.Nodes[0].Totals, view.Nodes[0], err)
		}
	}
	if err := node("memory", 1).View(&placement.KubeletView{}); err == nil {
		t.Error("a node that the machine does not have: no error")
	}
}
