package placement

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

type compiling struct {
	m    *Model
	view *KubeletView
	cfg  *Config
}

// nodes reproduces the first checks of topologymanager.NewManager.
func (in *compiling) nodes() error {
	if len(in.view.Nodes) == 0 {
		return bad("machine", "no NUMA nodes", "at least one")
	}
	for i := range in.view.Nodes {
		id := in.view.Nodes[i].ID
		if id >= topology.MaxNUMANodes {
			return unsupported("machine", "NUMA node "+strconv.Itoa(int(id)), "ids below 64, the kubelet's limit")
		}
		if in.m.nodes.Has(id) {
			return bad("machine", "NUMA node "+strconv.Itoa(int(id)), "each id once")
		}
		in.m.nodes = in.m.nodes.With(id)
	}
	n := in.m.nodes.Len()
	if n > in.m.set.maxNodes {
		want := "at least " + strconv.Itoa(n) + ", the number of NUMA nodes"
		if in.m.set.maxNodes == KubeletMaxNodes {
			want += " (without this option, the value is 8)"
		}
		err := bad("topologyManagerPolicyOptions[max-allowable-numa-nodes]", strconv.Itoa(in.m.set.maxNodes), want)
		if err := in.m.set.refuse(err, hinted...); err != nil {
			return err
		}
	}
	if n <= hint.MaxNodes {
		in.m.space, _ = hint.NewSpace(in.m.nodes)
		return nil
	}
	named := nodesNamed(in.view)
	beside, err := hint.NewSpaceBeside(named, in.m.nodes&^named)
	if err == nil && !in.m.set.memory {
		in.m.space = beside
		return nil
	}
	err = unsupported("machine", strconv.Itoa(n)+" NUMA nodes", "at most "+strconv.Itoa(hint.MaxNodes)+", or with the memory manager None at most "+
		strconv.Itoa(hint.MaxNodes-1)+" with CPUs or PCI devices: with more nodes most kubelets would try all sets of nodes, and hang")
	if in.m.set.memory {
		return err
	}
	return in.m.set.refuse(err, hinted...)
}

// minNamed is the minimum number of NUMA nodes in nodesNamed.
const minNamed = 8

// nodesNamed returns the NUMA nodes that hints are likely to name on a large machine: all NUMA
// nodes with CPUs or PCI devices. If these are fewer than minNamed, it adds the lowest other NUMA
// nodes.
func nodesNamed(view *KubeletView) (named topology.NUMASet) {
	ids := make([]topology.NUMAID, 0, len(view.Nodes))
	for i := range view.Nodes {
		n := &view.Nodes[i]
		if len(n.Cores) > 0 || n.HasDevices {
			named = named.With(n.ID)
		}
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if named.Len() < minNamed {
			named = named.With(id)
		}
	}
	return named
}

// distances computes layout.distance for prefer-closest-numa-nodes.
func (in *compiling) distances() error {
	if !in.m.set.closest {
		return nil
	}
	const field = "topologyManagerPolicyOptions[prefer-closest-numa-nodes]"
	for i := range in.view.Nodes {
		if in.view.Nodes[i].Distances == nil {
			return in.m.set.refuse(bad(field, "true", "the distances of NUMA node "+strconv.Itoa(int(in.view.Nodes[i].ID))+", which the machine does not report"), hinted...)
		}
	}
	if in.m.space == nil || in.m.space.Len() == 1 { // nothing to compare
		return nil
	}
	rows := make([][]uint64, in.m.space.Len())
	last := 63 - bits.LeadingZeros64(uint64(in.m.nodes))
	for i := range in.view.Nodes {
		n := &in.view.Nodes[i]
		if len(n.Distances) <= last {
			return in.m.set.refuse(unsupported(field, "true", "NUMA ids without gaps: the kubelet would crash on the "+
				strconv.Itoa(len(n.Distances))+" distances of NUMA node "+strconv.Itoa(int(n.ID))), PolicyBestEffort, PolicyRestricted)
		}
		if pos, ok := in.m.space.Position(n.ID); ok {
			rows[pos] = n.Distances
		}
	}
	in.m.sumDistances(rows)
	return nil
}

// cpus reproduces cpumanager.NewManager.
func (in *compiling) cpus() error {
	node, err := discover(in.view)
	if err != nil {
		return err
	}
	for id := range in.m.nodes.All() {
		var n nodeCPUs
		for _, t := range node.Threads {
			if n.id = id; t.NUMA == id {
				n.cpus.Add(t.CPU)
			}
		}
		if !n.cpus.IsEmpty() {
			in.m.nodeCPUs = append(in.m.nodeCPUs, n)
		}
	}
	if !in.m.set.static {
		return nil
	}
	return in.static(node)
}

// static reproduces cpumanager.NewStaticPolicy.
func (in *compiling) static(node cpu.Node) (err error) {
	m, c := in.m, &in.m.cpus
	if m.set.cpu.AlignBySocket && node.NumSockets > len(m.nodeCPUs) {
		return bad("cpuManagerPolicyOptions[align-by-socket]", "true", "no more sockets than NUMA nodes with CPUs")
	}
	if c.topology, err = cpu.New(node, m.set.cpu); err != nil {
		return unsupported("machine", err.Error(), "a CPU topology that the kubelet can work with")
	}
	if m.guard && !c.topology.Regular() && m.set.cpu.FullPhysicalCPUsOnly {
		return unsupported("cpuManagerPolicyOptions[full-pcpus-only]", "true",
			"cores with equal numbers of threads: the kubelet would assign CPUs twice (kubernetes#140495)")
	}
	if m.space != nil {
		if c.hinter, err = cpu.NewHinter(c.topology, m.space); err != nil {
			if err = m.set.refuse(unsupported("machine", err.Error(), "a CPU topology that the kubelet can work with"), hinted...); err != nil {
				return err
			}
		}
	}
	if c.reserved, err = in.reserve(); err != nil {
		return err
	}
	if c.siblings, err = c.topology.Siblings(c.reserved); err != nil {
		return bad("reservedSystemCPUs", in.cfg.ReservedSystemCPUs, "CPUs that the machine has")
	}
	c.initial = c.topology.CPUs()
	if m.set.cpu.StrictReservation {
		c.initial = c.initial.AndNot(&c.reserved)
	}
	return nil
}

// reserve returns the CPUs that are kept for the system: ReservedSystemCPUs, or as many CPUs as
// ReservedMilliCPU needs.
func (in *compiling) reserve() (topology.CPUSet, error) {
	m, cfg := in.m, in.cfg
	if cfg.ReservedSystemCPUs != "" {
		set, err := topology.ParseCPUList(cfg.ReservedSystemCPUs)
		if err != nil {
			err = bad("reservedSystemCPUs", cfg.ReservedSystemCPUs, "CPUs that the machine has: "+err.Error())
		}
		return set, err
	}
	if cfg.ReservedMilliCPU <= 0 {
		return topology.CPUSet{}, bad("kubeReserved[cpu]", strconv.FormatInt(cfg.ReservedMilliCPU, 10)+"m",
			"kubeReserved and systemReserved to add up to more than 0, or reservedSystemCPUs: the static policy needs them")
	}
	n := (cfg.ReservedMilliCPU-1)/1000 + 1
	all := m.cpus.topology.CPUs()
	if n > int64(all.Len()) {
		return topology.CPUSet{}, bad("kubeReserved[cpu]", strconv.FormatInt(cfg.ReservedMilliCPU, 10)+"m",
			"no more than the machine's "+strconv.Itoa(all.Len())+" CPUs")
	}
	set, err := m.cpus.topology.Reserve(int(n))
	if err != nil {
		return set, bad("kubeReserved[cpu]", strconv.FormatInt(cfg.ReservedMilliCPU, 10)+"m", "a number of CPUs that the kubelet can reserve with these policy options: "+err.Error())
	}
	return set, nil
}

// discover reproduces cpumanager/topology.Discover.
func discover(view *KubeletView) (cpu.Node, error) {
	n := cpu.Node{NumCPUs: view.NumCores, NumSockets: view.NumSockets}
	if view.NumCores == 0 {
		return n, bad("machine", "0 CPUs", "at least one")
	}
	var seen topology.CPUSet
	for i := range view.Nodes {
		for j := range view.Nodes[i].Cores {
			c := &view.Nodes[i].Cores[j]
			threads, err := coreThreads(view.Nodes[i].ID, c, &seen)
			if err != nil {
				return n, err
			}
			n.NumCores++
			n.Threads = append(n.Threads, threads...)
		}
	}
	return n, nil
}

func coreThreads(node topology.NUMAID, c *ViewCore, seen *topology.CPUSet) ([]cpu.Thread, error) {
	if len(c.Threads) == 0 {
		return nil, bad("machine", "core "+strconv.Itoa(c.ID)+" of NUMA node "+strconv.Itoa(int(node)), "at least one thread")
	}
	low, uncore := c.Threads[0], c.Socket
	if len(c.Uncore) > 0 {
		uncore = c.Uncore[0]
	}
	for _, id := range c.Threads {
		if id >= topology.MaxCPUs {
			return nil, unsupported("machine", "CPU "+strconv.Itoa(int(id)), "ids below "+strconv.Itoa(topology.MaxCPUs))
		}
		if seen.Has(id) {
			return nil, unsupported("machine", "CPU "+strconv.Itoa(int(id)), "each CPU on one core")
		}
		seen.Add(id)
		low = min(low, id)
	}
	var threads []cpu.Thread
	for _, id := range c.Threads {
		threads = append(threads, cpu.Thread{CPU: id, NUMA: node, Socket: c.Socket, Core: int(low), Uncore: uncore})
	}
	return threads, nil
}

// memory reproduces memorymanager.NewManager.
func (in *compiling) memory() error {
	m, view, cfg := in.m, in.view, in.cfg
	if !m.set.memory {
		return nil
	}
	nodes := make([]memory.Node, m.space.Len())
	for i := range view.Nodes {
		pos, _ := m.space.Position(view.Nodes[i].ID)
		nodes[pos] = memory.Node{Bytes: view.Nodes[i].MemoryBytes, HugePages: view.Nodes[i].HugePages, Reserved: map[string]uint64{}}
	}
	var regular uint64
	for i, r := range cfg.ReservedMemory {
		field := "reservedMemory[" + strconv.Itoa(i) + "]"
		pos, ok := m.space.Position(r.NUMA)
		if !ok {
			return bad(field+".numaNode", strconv.Itoa(int(r.NUMA)), "a NUMA node of the machine")
		}
		for name, bytes := range r.Limits {
			if _, twice := nodes[pos].Reserved[name]; twice {
				return bad(field+".limits["+name+"]", strconv.FormatUint(bytes, 10), "each resource once per NUMA node")
			}
			nodes[pos].Reserved[name] = bytes
		}
		regular += r.Limits[memory.Regular]
	}
	if regular == 0 {
		return bad("reservedMemory", "none", "some memory: the static policy needs it")
	}
	if cfg.NodeReserved != nil {
		if name, sum, found := memory.Misreserved(nodes, cfg.NodeReserved); found {
			return bad("reservedMemory[*].limits["+name+"]", strconv.FormatUint(sum, 10)+" bytes in total",
				strconv.FormatUint(cfg.NodeReserved[name], 10)+" bytes in total: kubeReserved + systemReserved + the hard eviction threshold")
		}
	}
	m.mem = memory.NewModel(m.space, nodes)
	return nil
}

// NewModel compiles a kubelet's configuration and its view of the machine. It returns a
// *ConfigError if the kubelet would refuse to start, or if the engine cannot predict its decisions
// (ConfigError.Unsupported).
func NewModel(view *KubeletView, cfg Config) (*Model, error) {
	set, err := readConfig(&cfg)
	if err != nil {
		return nil, err
	}
	m := &Model{set: set, own: set.own, authority: cfg.Authority, guard: cfg.GuardDefects}
	if m.authority == AuthorityBerth && m.own.Policy == PolicyNone && cfg.Default.Policy != NodePolicy {
		m.own = Rules{Policy: cfg.Default.Policy, Scope: cmp.Or(cfg.Default.Scope, ContainerScope)}
	}
	if m.authority == AuthorityBerth {
		m.own.CPUs.Bind, m.own.CPUs.BindHow = cfg.Default.CPUs.Bind, cfg.Default.CPUs.BindHow
	}
	m.own.OwnCPUs, m.memoryStays = set.static, m.authority == AuthorityBerth && cfg.MemoryStays
	m.guardRestarts = cfg.GuardRestarts && set.static && set.cpu.FullPhysicalCPUsOnly && set.version < V137
	m.guardRepeats = cfg.GuardRestarts && set.podLevel.managed
	in := compiling{m: m, view: view, cfg: &cfg}
	for _, compile := range [...]func() error{in.nodes, in.distances, in.cpus, in.memory, in.obeying, in.supplies} {
		if err := compile(); err != nil {
			return nil, err
		}
	}
	m.open()
	return m, nil
}

// open adds to a compiled model the state of an empty node, and the pool of admissions.
func (m *Model) open() {
	m.admissions.New = func() any { return &room{decider: m.newDecider()} }
	m.empty = &State{m: m, shared: m.cpus.initial}
	if m.mem != nil {
		m.empty.book = m.mem.NewBook()
	}
	if m.obey != nil {
		m.empty.account = m.obey.joint.NewBook()
		m.empty.shared = m.obey.joint.Cores.Shared(m.empty.account)
		m.empty.given = make([]uint64, m.supplies.places())
	}
}
