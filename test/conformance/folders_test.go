package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/dump"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/conformance/gen"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// folderMaker makes checkpoints as a kubelet writes them, and damages some of them. The kubelet
// that starts over the checkpoints has the same configuration or another one.
type folderMaker struct {
	*rand.Rand
	c       *cases.Case
	version placement.Version
}

// folderFor returns the folder of a seed.
func folderFor(seed uint64, version placement.Version) *Folder {
	m := &folderMaker{rand.New(rand.NewPCG(seed, 0x636865636b)), caseFor(seed&^gen.Wide, version), version}
	m.c.Events, m.c.Devices = []cases.Event{}, nil
	m.tame()
	f := &Folder{Files: map[string][]byte{}}
	wrote := m.startup()
	if !m.oneIn(25) {
		f.Files[kubeletstate.CPUFile] = m.cpuFile(wrote)
	}
	if !m.oneIn(25) {
		f.Files[kubeletstate.MemoryFile] = m.memoryFile(wrote)
	}
	if m.oneIn(30) {
		f.Files[kubeletstate.DeviceFile] = []byte(choose(m, "", "{}", "nonsense", `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"x.y/z":["a"]}},"Checksum":1}`))
	}
	if m.oneIn(2) {
		m.reconfigure()
	}
	line, err := cases.Encode(m.c)
	if err != nil {
		panic(err) // impossible: the generator made the case
	}
	f.Case = bytes.TrimSpace(line)
	return f
}

func (m *folderMaker) oneIn(n int) bool { return m.IntN(n) == 0 }

func choose[T any](m *folderMaker, values ...T) T { return values[m.IntN(len(values))] }

// tame changes the configuration so that few kubelets fail before they read their checkpoints.
func (m *folderMaker) tame() {
	c := &m.c.Config
	c.TopologyManagerPolicy, c.TopologyManagerPolicyOptions = "none", nil
	if c.MemoryManagerPolicy != "Static" && m.oneIn(2) {
		c.MemoryManagerPolicy = "Static"
	}
	if c.MemoryManagerPolicy == "Static" && len(c.ReservedMemory) == 0 {
		c.ReservedMemory = []cases.ReservedMemory{m.reserved(m.c.Machine.Nodes[0].ID)}
	}
}

func (m *folderMaker) reserved(id topology.NUMAID) cases.ReservedMemory {
	return cases.ReservedMemory{NUMANode: id, Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(1+m.IntN(1000))<<20, resource.BinarySI)}}
}

// startup returns the state of the kubelet that writes the files. If that kubelet cannot start, the
// result has no managers.
func (m *folderMaker) startup() *placement.Startup {
	line, err := cases.Encode(m.c)
	if err != nil {
		panic(err)
	}
	s, err := startupOf(&Folder{Case: line}, m.version)
	if err != nil {
		return &placement.Startup{Version: m.version, CPUPolicy: "none", MemoryPolicy: "None"}
	}
	return s
}

// leveled reports whether the kubelet assigns resources to whole pods.
func (m *folderMaker) leveled() bool { return m.c.Config.FeatureGates[gen.ManagersGate] }

// reconfigure changes the machine or the configuration of the kubelet that starts.
func (m *folderMaker) reconfigure() {
	c, nodes := &m.c.Config, m.c.Machine.Nodes
	switch m.IntN(11) {
	case 10:
		if m.version >= placement.V136 {
			c.FeatureGates = choose(m, nil, map[string]bool{gen.ManagersGate: true})
		}
	case 0:
		c.CPUManagerPolicy = choose(m, "static", "none", "")
	case 1:
		c.MemoryManagerPolicy = choose(m, "Static", "None", "")
	case 2:
		c.CPUManagerPolicyOptions = maps.Clone(c.CPUManagerPolicyOptions)
		if c.CPUManagerPolicyOptions == nil {
			c.CPUManagerPolicyOptions = map[string]string{}
		}
		c.CPUManagerPolicyOptions["strict-cpu-reservation"] = choose(m, "true", "false")
	case 3:
		c.ReservedSystemCPUs = ""
		c.ReservedCPU = resource.NewMilliQuantity(int64(1+m.IntN(4000)), resource.DecimalSI)
	case 4:
		c.ReservedSystemCPUs = strconv.Itoa(m.IntN(8))
	case 5: // a core is gone
		if n := &nodes[m.IntN(len(nodes))]; len(n.Cores) > 1 {
			n.Cores = n.Cores[1:]
		}
	case 6: // a core is new
		n := &nodes[m.IntN(len(nodes))]
		n.Cores = append(n.Cores, cases.Core{ID: 1023, Threads: []topology.CPUID{1023}})
	case 7:
		nodes[m.IntN(len(nodes))].Memory += 4096
	case 8:
		n := &nodes[m.IntN(len(nodes))]
		n.HugePages = append(slices.Clone(n.HugePages), cases.HugePages{SizeKB: 16 << 20, Count: uint64(m.IntN(2))})
	case 9:
		c.ReservedMemory = []cases.ReservedMemory{m.reserved(choose(m, nodes...).ID)}
	}
}

// cpuBook is a cpu_manager_state before it is written.
type cpuBook struct {
	policy, shared string
	entries        map[string]map[string]string
}

func (m *folderMaker) cpuFile(s *placement.Startup) []byte {
	b := &cpuBook{policy: s.CPUPolicy, entries: map[string]map[string]string{}}
	if s.CPUPolicy == "static" && !m.oneIn(12) {
		m.handOut(s, b)
	}
	if m.oneIn(3) {
		m.spoilCPUs(b)
	}
	text := m.writeCPUs(b)
	if m.oneIn(5) {
		text = m.spoilText(text)
	}
	return text
}

// handOut gives CPUs to pods. Containers of a pod may share some, as with init containers.
func (m *folderMaker) handOut(s *placement.Startup, b *cpuBook) {
	free := s.CPUs.AndNot(&s.Reserved)
	shared := s.CPUs
	all := slices.Collect(free.All())
	for p := range m.IntN(4) {
		pod := map[string]string{}
		var own topology.CPUSet
		for c := range 1 + m.IntN(3) {
			var cpus topology.CPUSet
			for range 1 + m.IntN(3) {
				if len(all) == 0 {
					break
				}
				id := choose(m, all...)
				if shared.Has(id) || own.Has(id) || m.oneIn(40) {
					cpus.Add(id)
				}
			}
			if cpus.IsEmpty() {
				continue
			}
			own = own.Or(&cpus)
			shared = shared.AndNot(&cpus)
			pod[fmt.Sprintf("c%d", c)] = cpus.String()
		}
		if len(pod) > 0 || m.oneIn(20) {
			b.entries[fmt.Sprintf("pod-%d", p)] = pod
		}
	}
	b.shared = shared.String()
}

// anyContainer returns the entry of a random container.
func (m *folderMaker) anyContainer(b *cpuBook) (pod map[string]string, name string) {
	if len(b.entries) == 0 {
		b.entries["new"] = map[string]string{}
	}
	pod = b.entries[choose(m, slices.Sorted(maps.Keys(b.entries))...)]
	if len(pod) == 0 {
		pod["new"] = ""
	}
	return pod, choose(m, slices.Sorted(maps.Keys(pod))...)
}

// oddLists are unusual or invalid CPU lists.
var oddLists = []string{"", "0", "0-3", "1,0", "3-1", "a", "0-", "-1", "0,,1", " 1", "1 ", "+1", "0x1", "01", "1--2", "1-2-3", "900-901", "0-1000000", "99999999999999999999", "\u00e9", "0-3,2-5,6"}

func (m *folderMaker) spoilCPUs(b *cpuBook) {
	switch m.IntN(9) {
	case 0:
		b.policy = choose(m, "static", "none", "", "Static", "other")
	case 1:
		b.shared = choose(m, oddLists...)
	case 2, 3:
		pod, name := m.anyContainer(b)
		pod[name] = choose(m, oddLists...)
	case 4: // also in the shared pool
		pod, name := m.anyContainer(b)
		if first, _, _ := strings.Cut(b.shared, ","); first != "" {
			first, _, _ = strings.Cut(first, "-")
			pod[name] = strings.Trim(pod[name]+","+first, ",")
		}
	case 5: // in no set
		if i := strings.LastIndexAny(b.shared, ",-"); i >= 0 {
			b.shared = b.shared[:i]
		}
	case 6: // written between two steps of an assignment or a release
		pod, name := m.anyContainer(b)
		delete(pod, name)
	case 7:
		b.shared = ""
	case 8:
		b.entries = choose(m, nil, map[string]map[string]string{}, map[string]map[string]string{"p": nil}, map[string]map[string]string{"p": {}})
	}
}

// CPUManagerCheckpointV1 is the format of kubelet 1.17. Its name is part of the checksum.
type CPUManagerCheckpointV1 struct {
	PolicyName    string            `json:"policyName"`
	DefaultCPUSet string            `json:"defaultCpuSet"`
	Entries       map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum `json:"checksum"`
}

// v4CPU is the format of kubelet 1.37: V2, and the valid data as a string.
type v4CPU struct {
	cpustate.CPUManagerCheckpointV2
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

func (m *folderMaker) writeCPUs(b *cpuBook) []byte {
	v2 := cpustate.CPUManagerCheckpointV2{PolicyName: b.policy, DefaultCPUSet: b.shared, Entries: b.entries}
	pods := cpustate.PodCPUAssignments{}
	if m.oneIn(4) {
		pods["p"] = cpustate.PodEntry{CPUSet: cpuset.New(m.IntN(3), 3)}
	}
	format := 2
	switch {
	case m.version >= placement.V137:
		format = choose(m, 4, 4, 2)
	case m.leveled():
		format = choose(m, 3, 3, 2)
	}
	for _, pod := range slices.Sorted(maps.Keys(b.entries)) {
		if m.leveled() && m.oneIn(2) { // the CPUs of one of its containers, or more
			for _, list := range b.entries[pod] {
				if cpus, err := cpuset.Parse(list); err == nil && cpus.Size() < 5000 {
					pods[pod] = cpustate.PodEntry{CPUSet: pods[pod].CPUSet.Union(cpus)}
				}
			}
		}
	}
	if m.oneIn(4) {
		format = 1 + m.IntN(5)
	}
	switch format {
	case 1:
		v1 := &CPUManagerCheckpointV1{PolicyName: b.policy, DefaultCPUSet: b.shared}
		if m.oneIn(3) {
			v1.Entries = map[string]string{}
		}
		for pod := range b.entries {
			for c, list := range b.entries[pod] {
				if v1.Entries == nil {
					v1.Entries = map[string]string{}
				}
				v1.Entries[pod+c] = list
			}
		}
		v1.Checksum = m.sum(v1, "conformance.CPUManagerCheckpointV1", "state.CPUManagerCheckpoint")
		return encoded(v1)
	case 3:
		v3 := &cpustate.CPUManagerCheckpointV3{PolicyName: b.policy, DefaultCPUSet: b.shared, Entries: b.entries, PodEntries: pods}
		v3.Checksum = m.sum(v3, "CPUManagerCheckpointV3", "CPUManagerCheckpoint")
		return encoded(v3)
	case 4:
		inner := string(encoded(map[string]any{"policyName": b.policy, "defaultCpuSet": b.shared, "entries": b.entries, "podEntries": pods}))
		out := &v4CPU{v2, inner, checksum.New(inner)}
		if _, err := out.MarshalCheckpoint(); err != nil {
			panic(err)
		}
		if m.oneIn(8) { // the two parts differ, and only one counts
			out.PolicyName = "other"
		}
		m.spoilData(&out.Data, &out.DataChecksum)
		return encoded(out)
	case 5: // with the type name of 1.36 or 1.37
		if m.oneIn(2) {
			v3 := &cpustate.CPUManagerCheckpointV3{PolicyName: b.policy, DefaultCPUSet: b.shared, Entries: b.entries, PodEntries: pods}
			v3.Checksum = checksum.New(v3)
			return encoded(v3)
		}
		v2.Checksum = checksum.New(&v2)
		return encoded(&v2)
	}
	return marshalled(&v2)
}

// spoilData changes the string of 1.37.
func (m *folderMaker) spoilData(data *string, sum *checksum.Checksum) {
	if !m.oneIn(4) {
		return
	}
	if m.oneIn(2) {
		*data = choose(m, "", "null", "[]", "{}", "{", strings.Replace(*data, ":", ":1,", 1), strings.Replace(*data, "\"entries\":{", "\"entries\":[{", 1))
		*sum = checksum.New(*data)
	}
	if m.oneIn(3) {
		*sum = checksum.Checksum(m.IntN(2))
	}
}

// sum returns a checksum with another type name.
func (m *folderMaker) sum(v any, name, other string) checksum.Checksum {
	h := fnv.New32a()
	fmt.Fprint(h, strings.Replace(dump.ForHash(v), name, other, 1))
	return checksum.Checksum(h.Sum32())
}

func marshalled(c checkpointmanager.Checkpoint) []byte {
	text, err := c.MarshalCheckpoint()
	if err != nil {
		panic(err)
	}
	return text
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// spoilText changes a file in ways that the kubelet's structs cannot.
func (m *folderMaker) spoilText(text []byte) []byte {
	replace := func(old, new string) []byte { return bytes.Replace(text, []byte(old), []byte(new), 1) }
	switch m.IntN(14) {
	case 0:
		return text[:m.IntN(len(text))]
	case 1:
		return []byte(choose(m, "", " ", "null", "{}", "[]", `"x"`, "0", "{}{}", "\xef\xbb\xbf{}"))
	case 2:
		return append(text, choose(m, "}", "\n", "x", "{}")...)
	case 3:
		return replace("{", `{"surprise":[1],`)
	case 4:
		return replace(`"policyName"`, `"POLICYNAME"`)
	case 5:
		return replace("{", `{"policyName":"first","entries":{"first":{}},`)
	case 6, 7: // another value of the first field of this name
		name := choose(m, "policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "machineState", "data", "dataChecksum", "numberOfAssignments", "memoryMap", "cells", "free", "numaAffinity", "size", "cpuSet")
		return replace(`"`+name+`":`, `"`+name+`":`+choose(m, "1", "-1", "1.5", "null", "true", `"x"`, "{}", "[]", `{"a":"b"}`, `{"a":{"b":1}}`, "99999999999999999999")+`,"old":`)
	case 8:
		return replace(`"checksum":`, `"checksum":0,"old":`)
	case 9:
		return replace(`"checksum":`, `"checksum":7,"old":`)
	case 10:
		return replace(`"checksum":`, `"checksum":1`)
	case 11:
		i := m.IntN(len(text))
		return append(append(slices.Clone(text[:i]), byte(m.IntN(128))), text[i+1:]...)
	case 12:
		return replace(":{", ":[{")
	default:
		return replace(`"0":`, `"x":`)
	}
}

// memoryBook is a memory_manager_state before it is written.
type memoryBook struct {
	policy  string
	nodes   memorystate.NUMANodeMap
	entries memorystate.ContainerMemoryAssignments
}

func (m *folderMaker) memoryFile(s *placement.Startup) []byte {
	b := &memoryBook{policy: s.MemoryPolicy, nodes: memorystate.NUMANodeMap{}, entries: memorystate.ContainerMemoryAssignments{}}
	if s.MemoryPolicy == "Static" && !m.oneIn(12) {
		for _, row := range s.Memory {
			id := int(row.NUMA)
			if b.nodes[id] == nil {
				b.nodes[id] = &memorystate.NUMANodeState{MemoryMap: map[corev1.ResourceName]*memorystate.MemoryTable{}, Cells: []int{id}}
			}
			b.nodes[id].MemoryMap[corev1.ResourceName(row.Resource)] = &memorystate.MemoryTable{
				TotalMemSize: row.Total, SystemReserved: row.SystemReserved, Allocatable: row.Allocatable, Free: row.Allocatable}
		}
		m.giveBlocks(b)
	}
	if m.oneIn(3) {
		m.spoilMemory(b)
	}
	text := m.writeMemory(b)
	if m.oneIn(5) {
		text = m.spoilText(text)
	}
	return text
}

// giveBlocks gives memory to containers, from groups of NUMA nodes that seldom overlap.
func (m *folderMaker) giveBlocks(b *memoryBook) {
	ids := slices.Sorted(maps.Keys(b.nodes))
	var groups [][]int
	for rest := ids; len(rest) > 0; {
		n := 1 + m.IntN(min(3, len(rest)))
		groups, rest = append(groups, rest[:n:n]), rest[n:]
	}
	for p := range m.IntN(4) {
		pod := map[string][]memorystate.Block{}
		for c := range 1 + m.IntN(2) {
			group := slices.Clone(choose(m, groups...))
			if m.oneIn(10) {
				group = slices.Clone(ids[:1+m.IntN(len(ids))])
			}
			if m.oneIn(4) {
				m.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
			}
			var blocks []memorystate.Block
			for _, r := range slices.Sorted(maps.Keys(b.nodes[group[0]].MemoryMap)) {
				if r == corev1.ResourceMemory || m.oneIn(3) {
					blocks = append(blocks, memorystate.Block{NUMAAffinity: group, Type: r, Size: m.size(b, group, r)})
				}
			}
			pod[fmt.Sprintf("c%d", c)] = blocks
			b.take(blocks)
		}
		b.entries[fmt.Sprintf("pod-%d", p)] = pod
	}
}

// size returns at most the capacity of a group, and rarely more.
func (m *folderMaker) size(b *memoryBook, group []int, r corev1.ResourceName) uint64 {
	var free uint64
	for _, id := range group {
		if t := b.nodes[id].MemoryMap[r]; t != nil {
			free += t.Free
		}
	}
	size := free / uint64(1+m.IntN(5))
	if m.oneIn(15) {
		size = free + 1
	}
	return size
}

// take subtracts blocks from the free memory, as far as possible.
func (b *memoryBook) take(blocks []memorystate.Block) {
	for _, block := range blocks {
		left := block.Size
		for _, id := range block.NUMAAffinity {
			n := b.nodes[id]
			if n == nil || n.MemoryMap[block.Type] == nil {
				continue
			}
			n.NumberOfAssignments++
			n.Cells = block.NUMAAffinity
			t := n.MemoryMap[block.Type]
			taken := min(left, t.Free)
			t.Free, t.Reserved, left = t.Free-taken, t.Reserved+taken, left-taken
		}
	}
}

func (m *folderMaker) spoilMemory(b *memoryBook) {
	id := 0
	if ids := slices.Sorted(maps.Keys(b.nodes)); len(ids) > 0 {
		id = choose(m, ids...)
	}
	n := b.nodes[id]
	table := func() *memorystate.MemoryTable {
		if n == nil || len(n.MemoryMap) == 0 {
			return &memorystate.MemoryTable{}
		}
		return n.MemoryMap[choose(m, slices.Sorted(maps.Keys(n.MemoryMap))...)]
	}
	switch m.IntN(16) {
	case 0:
		b.policy = choose(m, "Static", "None", "", "static", "BestEffort")
	case 1:
		b.nodes = choose(m, nil, memorystate.NUMANodeMap{})
	case 2:
		delete(b.nodes, id)
	case 3:
		b.nodes[choose(m, 9, 63, 64, -1)] = choose(m, nil, &memorystate.NUMANodeState{})
	case 4:
		b.nodes[id] = nil
	case 5:
		if n != nil && len(n.MemoryMap) > 0 {
			n.MemoryMap[choose(m, slices.Sorted(maps.Keys(n.MemoryMap))...)] = nil
		}
	case 6:
		if n != nil && len(n.MemoryMap) > 0 {
			delete(n.MemoryMap, choose(m, slices.Sorted(maps.Keys(n.MemoryMap))...))
		}
	case 7:
		if n != nil {
			n.NumberOfAssignments += choose(m, -1, 1)
		}
	case 8:
		if n != nil {
			n.Cells = choose(m, nil, []int{}, []int{id, id}, []int{id, 77}, []int{0, 1}, []int{1, 0})
		}
	case 9:
		t := table()
		*choose(m, &t.TotalMemSize, &t.SystemReserved, &t.Allocatable, &t.Reserved, &t.Free) += choose[uint64](m, 1, 1<<63)
	case 10: // memory moved between the nodes of a group
		if n != nil && len(n.Cells) > 1 && b.nodes[n.Cells[0]] != nil && b.nodes[n.Cells[1]] != nil {
			a, z := b.nodes[n.Cells[0]].MemoryMap["memory"], b.nodes[n.Cells[1]].MemoryMap["memory"]
			if a != nil && z != nil {
				a.Free, z.Free = a.Free-1, z.Free+1
			}
		}
	case 11:
		b.entries = choose(m, nil, memorystate.ContainerMemoryAssignments{}, memorystate.ContainerMemoryAssignments{"p": nil}, memorystate.ContainerMemoryAssignments{"p": {"c": nil}})
	case 12, 13: // a block of a resource that the machine does not have
		block := memorystate.Block{NUMAAffinity: []int{id}, Type: corev1.ResourceMemory}
		*choose(m, &block.NUMAAffinity) = choose(m, []int{id}, []int{77}, []int{}, nil, []int{id, id}, []int{-1})
		block.Type, block.Size = choose[corev1.ResourceName](m, "memory", "hugepages-3Mi", ""), choose[uint64](m, 0, 1, 1<<63)
		b.entries["strange"] = map[string][]memorystate.Block{"c": {block}}
		if m.oneIn(2) {
			b.entries["stranger"] = map[string][]memorystate.Block{"c": {block}}
		}
	case 14: // allocated without an entry
		b.entries["late"] = map[string][]memorystate.Block{"c": {{NUMAAffinity: []int{id}, Type: "memory", Size: 4096}}}
	case 15:
		if pods := slices.Sorted(maps.Keys(b.entries)); len(pods) > 0 {
			delete(b.entries, choose(m, pods...))
		}
	}
}

type v3Memory struct {
	memorystate.MemoryManagerCheckpointV1
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

func (m *folderMaker) writeMemory(b *memoryBook) []byte {
	v1 := memorystate.MemoryManagerCheckpointV1{PolicyName: b.policy, MachineState: b.nodes, Entries: b.entries}
	pods := memorystate.PodMemoryAssignments{}
	if m.oneIn(4) {
		pods["p"] = memorystate.PodEntry{MemoryBlocks: []memorystate.Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 1}}}
	}
	format := 1
	switch {
	case m.version >= placement.V137:
		format = choose(m, 3, 3, 1)
	case m.leveled():
		format = choose(m, 2, 2, 1)
	}
	for _, pod := range slices.Sorted(maps.Keys(b.entries)) {
		if containers := slices.Sorted(maps.Keys(b.entries[pod])); m.leveled() && m.oneIn(2) && len(containers) > 0 {
			pods[pod] = memorystate.PodEntry{MemoryBlocks: b.entries[pod][choose(m, containers...)]}
			if m.oneIn(2) { // the other containers share it
				for _, c := range containers {
					b.entries[pod][c] = pods[pod].MemoryBlocks
				}
			}
		}
	}
	if m.oneIn(5) {
		format = 1 + m.IntN(4)
	}
	switch format {
	case 2:
		v2 := &memorystate.MemoryManagerCheckpointV2{PolicyName: b.policy, MachineState: b.nodes, Entries: b.entries, PodEntries: pods}
		v2.Checksum = m.sum(v2, "MemoryManagerCheckpointV2", "MemoryManagerCheckpoint")
		return encoded(v2)
	case 3:
		inner := string(encoded(map[string]any{"policyName": b.policy, "machineState": b.nodes, "entries": b.entries, "podEntries": pods}))
		out := &v3Memory{v1, inner, checksum.New(inner)}
		if _, err := out.MarshalCheckpoint(); err != nil {
			panic(err)
		}
		m.spoilData(&out.Data, &out.DataChecksum)
		return encoded(out)
	case 4: // with the type name of 1.36 or 1.37
		v1.Checksum = checksum.New(&v1)
		return encoded(&v1)
	}
	return marshalled(&v1)
}
