package cpuoracle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	genuine "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

func TestMain(m *testing.M) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("CPUManagerPolicyAlphaOptions=true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// affinity is a topology manager with a fixed hint.
type affinity struct{ hint topologymanager.TopologyHint }

func (a *affinity) GetAffinity(logr.Logger, string, string) topologymanager.TopologyHint {
	return a.hint
}
func (a *affinity) GetPolicy() topologymanager.Policy { return topologymanager.NewNonePolicy() }
func (a *affinity) Name() string                      { return "none" }

// pair is one node, with the kubelet's policy and state, and with the engine's state.
type pair struct {
	t    *testing.T
	r    *rand.Rand
	topo *genuine.CPUTopology
	o    cpu.Options

	policy   cpumanager.Policy
	state    state.State
	affinity *affinity

	ours               *cpu.Topology
	hinter             *cpu.Hinter
	space              *hint.Space
	reserved, siblings topology.CPUSet
	shared             topology.CPUSet
	held               map[string]map[string]topology.CPUSet
	reuser             string
	reusable           topology.CPUSet

	allocations, refusals, hangs int
}

func randomOptions(r *rand.Rand, topo *genuine.CPUTopology) cpu.Options {
	o := cpu.Options{StrictReservation: r.IntN(4) == 0, Version: release.V137}
	o.AlignBySocket = r.IntN(4) == 0 && topo.NumSockets <= topo.NumNUMANodes
	switch r.IntN(8) {
	case 0:
		o.DistributeAcrossCores = true
	case 1, 2, 3:
		o.DistributeAcrossNUMA = true
	case 4, 5:
		o.PreferAlignByUncore = true
	}
	o.FullPhysicalCPUsOnly = !o.DistributeAcrossCores && r.IntN(3) == 0
	return o
}

func optionMap(o cpu.Options) map[string]string {
	m := map[string]string{}
	for name, on := range map[string]bool{
		"full-pcpus-only": o.FullPhysicalCPUsOnly, "distribute-cpus-across-numa": o.DistributeAcrossNUMA,
		"align-by-socket": o.AlignBySocket, "distribute-cpus-across-cores": o.DistributeAcrossCores,
		"strict-cpu-reservation": o.StrictReservation, "prefer-align-cpus-by-uncorecache": o.PreferAlignByUncore,
	} {
		if on {
			m[name] = "true"
		}
	}
	return m
}

// newPair starts the kubelet's policy and the engine. It returns nil if the kubelet would not start
// or restart.
func newPair(t *testing.T, seed uint64) *pair {
	r := rand.New(rand.NewPCG(seed, 0))
	topo, err := randomTopology(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{
		t: t, r: r, topo: topo, o: randomOptions(r, topo), affinity: &affinity{},
		held: map[string]map[string]topology.CPUSet{},
	}
	if p.ours, err = cpu.New(nodeOf(topo), p.o); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var numa topology.NUMASet
	for _, id := range topo.CPUDetails.NUMANodes().List() {
		numa = numa.With(topology.NUMAID(id))
	}
	if p.space, err = hint.NewSpace(numa); err != nil {
		t.Fatal(err)
	}
	if p.hinter, err = cpu.NewHinter(p.ours, p.space); err != nil {
		t.Fatal(err)
	}
	if !p.start() {
		return nil
	}
	return p
}

// start reserves CPUs, by list or by number, and creates the genuine policy.
func (p *pair) start() bool {
	n, list := 1+p.r.IntN(4), cpuset.New()
	all := p.topo.CPUDetails.CPUs().List()
	if p.r.IntN(2) == 0 {
		for range n {
			list = list.Union(cpuset.New(all[p.r.IntN(len(all))]))
		}
		n, p.reserved = list.Size(), fromGenuine(list)
	}
	var ourErr error
	if list.IsEmpty() {
		if p.reserved, ourErr = p.ours.Reserve(n); errors.Is(ourErr, cpu.ErrWouldHang) {
			return false
		}
	}
	var err error
	p.policy, err = cpumanager.NewStaticPolicy(logr.Discard(), p.topo, n, list, p.affinity, optionMap(p.o))
	if (err != nil) != (ourErr != nil) {
		p.fatalf("NewStaticPolicy: %v; Reserve: %v", err, ourErr)
	}
	if err != nil {
		return false
	}
	p.state = state.NewMemoryState(logr.Discard())
	if err := p.policy.Start(logr.Discard(), p.state); err != nil {
		p.fatalf("Start: %v", err)
	}
	allocatable := p.topo.CPUDetails.CPUs().Difference(fromOurs(p.reserved))
	if got := p.policy.GetAllocatableCPUs(p.state); !got.Equals(allocatable) {
		p.fatalf("Reserve(%d) = %s, the kubelet leaves %s", n, p.reserved, got)
	}
	if p.siblings, err = p.ours.Siblings(p.reserved); err != nil {
		p.t.Fatal(err)
	}
	p.shared = p.ours.CPUs()
	if p.o.StrictReservation {
		p.shared = p.shared.AndNot(&p.reserved)
	}
	p.checkShared()
	return true
}

func (p *pair) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\noptions %+v\nreserved %s\nmachine %+v", fmt.Sprintf(format, args...), p.o, p.reserved, p.topo)
}

func (p *pair) checkShared() {
	p.t.Helper()
	if got := p.state.GetDefaultCPUSet(); !got.Equals(fromOurs(p.shared)) {
		p.fatalf("the shared pool is %s, the kubelet's %s", p.shared, got)
	}
}

func fromGenuine(s cpuset.CPUSet) (out topology.CPUSet) {
	for _, id := range s.UnsortedList() {
		out.Add(topology.CPUID(id))
	}
	return out
}

func fromOurs(s topology.CPUSet) cpuset.CPUSet {
	var ids []int
	for id := range s.All() {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}

// container is a container of a pod, with its CPUs.
type container struct {
	name          string
	cpus          int
	init, sidecar bool
}

func (p *pair) randomPod(uid string) (*v1.Pod, []container) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}}
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	var all []container
	for i := range 1 + p.r.IntN(4)*p.r.IntN(2) {
		c := container{name: "c" + strconv.Itoa(i), cpus: p.randomAmount()}
		if i < 2 && p.r.IntN(2) == 0 && (i == 0 || all[i-1].init) {
			c.init, c.sidecar = true, p.r.IntN(3) == 0
		}
		all = append(all, c)
		spec := v1.Container{Name: c.name, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(c.cpus), resource.DecimalSI)},
		}}
		if !c.init {
			pod.Spec.Containers = append(pod.Spec.Containers, spec)
			continue
		}
		if always := v1.ContainerRestartPolicyAlways; c.sidecar {
			spec.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
	}
	return pod, all
}

func (p *pair) randomAmount() int {
	n := p.topo.NumCPUs
	if p.r.IntN(3) > 0 {
		n = n/6 + 1
	}
	n = 1 + p.r.IntN(n)
	if per := p.topo.CPUsPerCore(); p.o.FullPhysicalCPUsOnly && p.r.IntN(8) > 0 {
		n = (n + per - 1) / per * per
	}
	return n
}

// admit asks the kubelet and the engine for one container after the other, until one is refused. It
// returns false if the kubelet would hang.
func (p *pair) admit(pod *v1.Pod, all []container) bool {
	specs := append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
	for i, c := range all {
		offered := p.compareHints(pod, &specs[i], c)
		p.affinity.hint = p.randomAffinity(offered)
		err := p.allocateOurs(string(pod.UID), c)
		if errors.Is(err, cpu.ErrWouldHang) || errors.Is(err, cpu.ErrTooComplex) {
			p.hangs++
			return false
		}
		genuineErr := p.policy.Allocate(logr.Discard(), p.state, pod, &specs[i], lifecycle.AddOperation)
		if kindOf(genuineErr) != err {
			p.fatalf("%s of %s, %d CPUs at %v: %v; the kubelet says %v", c.name, pod.UID, c.cpus, p.affinity.hint, err, genuineErr)
		}
		p.allocations++
		if err != nil {
			p.refusals++
			return true
		}
		got, _ := p.state.GetCPUSet(string(pod.UID), c.name)
		if ours := p.held[string(pod.UID)][c.name]; !got.Equals(fromOurs(ours)) {
			p.fatalf("%s of %s, %d CPUs at %v: %s; the kubelet gives %s", c.name, pod.UID, c.cpus, p.affinity.hint, ours, got)
		}
		p.checkShared()
	}
	return true
}

// kindOf returns the engine's error for the kubelet's error.
func kindOf(err error) error {
	var smt cpumanager.SMTAlignmentError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &smt) && smt.CausedByPhysicalCPUs:
		return cpu.ErrSMTCores
	case errors.As(err, &smt):
		return cpu.ErrSMTSize
	case strings.Contains(err.Error(), "not enough cpus available"):
		return cpu.ErrNotEnough
	case strings.Contains(err.Error(), "failed to allocate cpus"):
		return cpu.ErrFailed
	case strings.Contains(err.Error(), "accounting error"):
		return cpu.ErrAccounting
	}
	return err
}

// compareHints checks that the kubelet and the engine offer the same hints, and returns the hints.
func (p *pair) compareHints(pod *v1.Pod, spec *v1.Container, c container) []topologymanager.TopologyHint {
	offered := p.policy.GetTopologyHints(logr.Discard(), p.state, pod, spec, lifecycle.AddOperation)["cpu"]
	available := p.shared.AndNot(&p.reserved)
	in := cpu.HintInput{N: c.cpus, Available: &available, Reusable: p.reusableOf(string(pod.UID)), Want: hint.Offered}
	full, brief := p.space.NewList(), p.space.NewList()
	p.hinter.Hints(&in, &full)
	in.Want = hint.Preferred
	p.hinter.Hints(&in, &brief)
	preferred := 0
	for _, h := range offered {
		var set topology.NUMASet
		for _, id := range h.NUMANodeAffinity.GetBits() {
			set = set.With(topology.NUMAID(id))
		}
		m := p.space.Compact(set)
		if !full.Offered.Has(m) || full.Preferred.Has(m) != h.Preferred || brief.Preferred.Has(m) != h.Preferred {
			p.fatalf("the kubelet's hint %v for %d CPUs is not ours", h, c.cpus)
		}
		if h.Preferred {
			preferred++
		}
	}
	if full.Offered.Len() != len(offered) || full.Preferred.Len() != preferred || brief.Preferred.Len() != preferred {
		p.fatalf("%d hints, %d preferred for %d CPUs; the kubelet has %d, %d", full.Offered.Len(), full.Preferred.Len(), c.cpus, len(offered), preferred)
	}
	return offered
}

func (p *pair) reusableOf(uid string) *topology.CPUSet {
	if p.reuser == uid {
		return &p.reusable
	}
	return nil
}

// randomAffinity returns an offered hint, no hint, or random NUMA nodes.
func (p *pair) randomAffinity(offered []topologymanager.TopologyHint) topologymanager.TopologyHint {
	switch n := p.r.IntN(8); {
	case n < 5 && len(offered) > 0:
		return offered[p.r.IntN(len(offered))]
	case n < 7:
		return topologymanager.TopologyHint{}
	}
	ids := p.topo.CPUDetails.NUMANodes().List()
	mask, _ := bitmask.NewBitMask(ids[p.r.IntN(len(ids))], ids[p.r.IntN(len(ids))])
	return topologymanager.TopologyHint{NUMANodeAffinity: mask}
}

func (p *pair) allocateOurs(uid string, c container) error {
	in := cpu.AllocateInput{
		N: c.cpus, Shared: &p.shared, Reserved: &p.reserved, Siblings: &p.siblings, Reusable: p.reusableOf(uid),
	}
	if m := p.affinity.hint.NUMANodeAffinity; m != nil {
		in.Aligned = true
		for _, id := range m.GetBits() {
			in.NUMA = in.NUMA.With(topology.NUMAID(id))
		}
	}
	var got topology.CPUSet
	if err := p.ours.Allocate(&in, &got); err != nil {
		return err
	}
	p.shared = p.shared.AndNot(&got)
	if p.held[uid] == nil {
		p.held[uid] = map[string]topology.CPUSet{}
	}
	p.held[uid][c.name] = got
	if p.reuser != uid {
		p.reuser, p.reusable = uid, topology.CPUSet{}
	}
	if c.init && !c.sidecar {
		p.reusable = p.reusable.Or(&got)
	} else {
		p.reusable = p.reusable.AndNot(&got)
	}
	return nil
}

// remove removes a pod, container by container.
func (p *pair) remove(uid string) {
	for _, name := range slices.Sorted(maps.Keys(p.held[uid])) {
		cpus := p.held[uid][name]
		delete(p.held[uid], name)
		for _, other := range p.held[uid] {
			cpus = cpus.AndNot(&other)
		}
		p.shared = p.shared.Or(&cpus)
		if err := p.policy.RemoveContainer(logr.Discard(), p.state, uid, name); err != nil {
			p.fatalf("RemoveContainer: %v", err)
		}
	}
	delete(p.held, uid)
	p.checkShared()
}

// run admits and removes pods.
func (p *pair) run() {
	for i := range 12 {
		for _, uid := range slices.Sorted(maps.Keys(p.held)) {
			if p.r.IntN(5) == 0 {
				p.remove(uid)
			}
		}
		if pod, all := p.randomPod("pod" + strconv.Itoa(i)); !p.admit(pod, all) {
			return
		}
	}
}

// TestAgainstKubelet runs until there have been BERTH_CPU_ALLOCATIONS allocations (4000 if unset).
func TestAgainstKubelet(t *testing.T) {
	want := 4000
	if s := os.Getenv("BERTH_CPU_ALLOCATIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		want = n
	}
	machines, allocations, refusals, hangs := 0, 0, 0, 0
	for seed := uint64(0); allocations < want; seed++ {
		p := newPair(t, seed)
		if p == nil {
			continue
		}
		p.run()
		machines, allocations, refusals, hangs = machines+1, allocations+p.allocations, refusals+p.refusals, hangs+p.hangs
	}
	t.Logf("%d machines, %d allocations, of them %d refused, %d predicted to hang", machines, allocations, refusals, hangs)
}
