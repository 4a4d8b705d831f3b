package placement

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// Remedy is a change of the pod, or a wait, after which the node admits the pod. Berth has tried
// each remedy on the state of the node, or on the empty node (Empty).
type Remedy struct {
	// Do is RemedyAsk, RemedyShare, RemedyDrop or RemedyWait.
	Do string `json:"do"`
	// Container is the container that asks for the amount Asked of Resource, and should ask for
	// Instead. Both amounts are CPUs, bytes or devices. For RemedyShare it is the init
	// container that should ask for a tenth of a CPU less, or "" for all of them.
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Asked     uint64 `json:"asked,omitempty"`
	Instead   uint64 `json:"instead,omitempty"`
	// Wish is the annotation that the user should remove ("key"), or set ("key: value").
	Wish string `json:"wish,omitempty"`
	// Empty means that the remedy helps only after the other pods have ended.
	Empty bool `json:"empty,omitempty"`
	// NUMANodes is the number of NUMA nodes that the pod then uses.
	NUMANodes int `json:"numaNodes,omitempty"`

	alone bool // the pod has one container
}

// Kinds of a Remedy.
const (
	RemedyAsk   = "ask"      // ask for another amount
	RemedyShare = "share"    // let init containers share CPUs
	RemedyDrop  = "leaveOut" // remove an annotation, or set a milder policy
	RemedyWait  = "wait"     // wait until other pods end
)

// Fits checks a request against the resources of the node that the engine does not know. If
// empty is set, it assumes an empty node. A nil Fits accepts every request.
type Fits func(r *Request, empty bool) bool

// Advise explains a refusal as Explain does, and also fills in Remedies. It tries dozens of
// admissions.
func Advise(s *State, r *Request, fits Fits) Refusal {
	out := Explain(s, r)
	if out.Reason == Admitted || !r.sane() {
		return out
	}
	t := trial{s: s, r: r, fits: fits}
	out.advised = true
	out.Remedies = t.all(out.Container)
	empty, err := s.emptied(s.m)
	if err != nil {
		return out
	}
	t.s, t.empty = empty, true
	if t.admits(r) {
		out.Remedies = append(out.Remedies, Remedy{Do: RemedyWait, Empty: true})
	} else if len(out.Remedies) == 0 {
		for _, one := range t.all(out.Container) {
			one.Empty = true
			out.Remedies = append(out.Remedies, one)
		}
	}
	out.milderHelps = s.m.milderAdmits(s, r)
	return out
}

// Changes returns, for each resource, at most one other amount with which the node admits the pod
// now. It looks for the greatest smaller amount. If it finds none, it looks for a greater number of
// CPUs or devices.
func Changes(s *State, r *Request, fits Fits) []Remedy {
	if !r.sane() {
		return nil
	}
	t := trial{s: s, r: r, fits: fits}
	return t.changes("")
}

// emptied returns a state of model m that has the devices of s and no pods.
func (s *State) emptied(m *Model) (*State, error) {
	snap := m.NewState().Snapshot()
	snap.Devices = s.Snapshot().Devices
	return m.StateOf(&snap)
}

// milderAdmits reports whether the node would admit the request now if it had the policy
// best-effort. If even the empty node refuses the request, milderAdmits reports whether the empty
// node would admit it with that policy.
func (m *Model) milderAdmits(s *State, r *Request) bool {
	if m.obey != nil || m.own.Policy != PolicyRestricted && m.own.Policy != PolicySingleNUMANode {
		return false
	}
	mild := &Model{set: m.set, own: m.own, authority: m.authority, guard: m.guard, guardRestarts: m.guardRestarts, guardRepeats: m.guardRepeats, layout: m.layout,
		cpus: m.cpus, mem: m.mem, supplies: m.supplies}
	mild.own.Policy = PolicyBestEffort
	mild.set.own.Policy = PolicyBestEffort
	mild.open()
	snap := s.Snapshot()
	if now, err := mild.StateOf(&snap); err == nil && admitted(now, r) {
		return true
	}
	if empty, err := s.emptied(m); err != nil || admitted(empty, r) {
		return false
	}
	empty, err := s.emptied(mild)
	return err == nil && admitted(empty, r)
}

func admitted(s *State, r *Request) bool {
	v := Admit(s, r)
	return v.OK()
}

// trial tries changed requests on a state.
type trial struct {
	s     *State
	r     *Request
	fits  Fits
	empty bool
}

func (t *trial) admits(r *Request) bool {
	if t.fits != nil && !t.fits(r, t.empty) {
		return false
	}
	v := Admit(t.s, r)
	return v.OK()
}

// quantity is a container's request for a resource. Amounts below it are tried in multiples of
// step.
type quantity struct {
	at          int
	resource    string
	asked, step uint64
	// width returns the number of NUMA nodes that an empty machine needs for an amount. If two
	// amounts have the same width and the larger one fits, the smaller one usually fits too.
	width func(uint64) int
	// most is the upper bound for amounts above asked. If it is 0, no larger amount is tried.
	most uint64
}

func (t *trial) all(at string) []Remedy {
	return slices.Concat(t.changes(at), t.shares(), t.drops())
}

// shares tries init containers without whole CPUs. The kubelet keeps the CPUs of an init container
// for the next containers, which binds them to its NUMA node.
func (t *trial) shares() []Remedy {
	r, changed := *t.r, []int(nil)
	r.Containers = slices.Clone(r.Containers)
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Kind == Init && c.MilliCPU > 0 && c.MilliCPU%1000 == 0 {
			c.MilliCPU -= 100
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 || !r.Guaranteed || r.PodLevel || !t.admits(&r) {
		return nil
	}
	one := Remedy{Do: RemedyShare}
	if len(changed) == 1 {
		c := &t.r.Containers[changed[0]]
		one.Container, one.Resource, one.Asked = c.Name, cpuResource, uint64(c.MilliCPU/1000)
	}
	return []Remedy{one}
}

// changes tries other amounts. at names the refused container, or "" for the pod.
func (t *trial) changes(at string) (out []Remedy) {
	for _, q := range t.quantities(at) {
		instead, ok := t.below(&q)
		if !ok {
			instead, ok = t.above(&q)
		}
		if !ok {
			continue
		}
		with := t.with(&q, instead)
		v := Admit(t.s, &with)
		out = append(out, Remedy{Do: RemedyAsk, Container: t.r.Containers[q.at].Name, Resource: q.resource, Asked: q.asked, Instead: instead,
			NUMANodes: v.NUMA.Len(), alone: len(t.r.Containers) == 1})
	}
	return out
}

// nearby is the number of amounts next to the request that are tried one by one.
const nearby = 16

// below finds an amount below the requested one with which the pod is admitted, in most cases the
// greatest such amount (quantity.width).
func (t *trial) below(q *quantity) (uint64, bool) {
	steps := (q.asked - 1) / q.step
	for high := steps; high > 0; {
		width := q.width(high * q.step)
		low := 1 + uint64(sort.Search(int(high-1), func(i int) bool { return q.width(uint64(i+1)*q.step) >= width }))
		n := uint64(sort.Search(int(high-low+1), func(i int) bool { return t.tries(q, (high-uint64(i))*q.step) }))
		if n <= high-low && t.tries(q, (high-n)*q.step) {
			return (high - n) * q.step, true
		}
		high = low - 1
	}
	for n := steps; n > 0 && n+nearby > steps; n-- {
		if t.tries(q, n*q.step) {
			return n * q.step, true
		}
	}
	return 0, false
}

// above finds an amount above the requested one with which the pod is admitted. It tries the next
// amounts one by one (nearby), and then the first amounts that need more NUMA nodes.
func (t *trial) above(q *quantity) (uint64, bool) {
	for n := (q.asked/q.step + 1) * q.step; n <= q.most && n <= q.asked+nearby*q.step; n += q.step {
		if t.tries(q, n) {
			return n, true
		}
	}
	for n := q.asked; n < q.most; {
		width := q.width(n)
		n += 1 + uint64(sort.Search(int(q.most-n-1), func(i int) bool { return q.width(n+1+uint64(i)) > width }))
		for _, more := range []uint64{0, 1, 2, 3} { // CPUs may have to be whole cores
			if n+more <= q.most && t.tries(q, n+more) {
				return n + more, true
			}
		}
	}
	return 0, false
}

func (t *trial) tries(q *quantity, n uint64) bool {
	r := t.with(q, n)
	return t.admits(&r)
}

func (t *trial) with(q *quantity, n uint64) Request {
	r := *t.r
	r.Containers = slices.Clone(r.Containers)
	c := &r.Containers[q.at]
	switch {
	case q.resource == cpuResource:
		c.MilliCPU = int64(n) * 1000
	case isMemory(q.resource):
		c.Memory = slices.Clone(c.Memory)
		for i := range c.Memory {
			if c.Memory[i].Resource == q.resource {
				c.Memory[i].Bytes = n
			}
		}
	default:
		c.Devices = slices.Clone(c.Devices)
		for i := range c.Devices {
			if c.Devices[i].Resource == q.resource {
				c.Devices[i].Count = int64(n)
			}
		}
	}
	return r
}

// quantities returns one amount to change for each resource: the amount that the refused container
// requests. at is the name of this container. If it does not request the resource, quantities
// returns the largest amount that any container requests.
func (t *trial) quantities(at string) (out []quantity) {
	m := t.s.m
	add := func(q quantity) {
		i := slices.IndexFunc(out, func(o quantity) bool { return o.resource == q.resource })
		switch {
		case q.asked == 0:
		case i < 0:
			out = append(out, q)
		case t.r.Containers[q.at].Name == at || t.r.Containers[out[i].at].Name != at && q.asked > out[i].asked:
			out[i] = q
		}
	}
	for i := range t.r.Containers {
		c := &t.r.Containers[i]
		level := t.r.PodLevel && m.set.podLevel.managed
		if level && (m.whole(t.r) || m.shares(t.r, i)) {
			for j := range c.Devices {
				add(t.devices(i, &c.Devices[j]))
			}
			continue
		}
		if c.MilliCPU%1000 == 0 {
			var all topology.CPUSet
			for j := range m.nodeCPUs {
				all = all.Or(&m.nodeCPUs[j].cpus)
			}
			asked, step := uint64(c.MilliCPU/1000), uint64(1)
			if cores := m.cpus.topology; cores != nil {
				step = max(1, cores.WholeCore())
			}
			most := uint64(all.Len())
			if level {
				most = 0 // no container may ask for more than the pod
			}
			add(quantity{i, cpuResource, asked, step, func(n uint64) int { return m.fewestForCPUs(t.cpusWith(i, n)) }, most})
		}
		for j := range c.Devices {
			one := t.devices(i, &c.Devices[j])
			add(one)
		}
		for j := range c.Memory {
			k := &c.Memory[j]
			add(quantity{i, k.Resource, k.Bytes, t.step(k), t.noWidth, 0})
		}
	}
	for i := range out {
		if m.mem != nil && isMemory(out[i].resource) {
			out[i].width = t.memoryWidth(&out[i])
		}
	}
	return out
}

func (*trial) noWidth(uint64) int { return 1 }

// cpusWith returns the number of CPUs that are placed together if container i asks for n.
func (t *trial) cpusWith(i int, n uint64) int {
	if rules := t.s.m.rulesFor(t.r.Rules); rules.Scope != PodScope || rules.Policy == PolicyNone {
		return int(n)
	}
	var sum Peak[int]
	for j := range t.r.Containers {
		cpus := 0
		if c := &t.r.Containers[j]; j == i {
			cpus = int(n)
		} else if c.MilliCPU%1000 == 0 {
			cpus = int(c.MilliCPU / 1000)
		}
		sum.Add(t.r.Containers[j].Kind, cpus)
	}
	return sum.Most()
}

func (t *trial) devices(i int, d *DeviceRequest) quantity {
	q := quantity{at: i, resource: d.Resource, asked: uint64(max(0, d.Count)), step: 1, width: t.noWidth}
	if d.Claimed {
		q.asked = 0 // another program assigns these devices
	}
	for j := range t.s.pools {
		if p := &t.s.pools[j]; p.resource == d.Resource && p.pool != nil {
			q.most = uint64(p.pool.Len())
			if p.pool.Aligned() && t.s.m.space != nil {
				q.width = func(n uint64) int { return p.pool.MinSize(int(n)) }
			}
		}
	}
	return q
}

func (t *trial) memoryWidth(q *quantity) func(uint64) int {
	rules := t.s.m.rulesFor(t.r.Rules)
	if rules.Policy != PolicyRestricted {
		return t.noWidth
	}
	totals := make([]uint64, 0, 8)
	for pos := range t.s.m.space.Len() {
		for kind, name := range t.s.m.mem.Names() {
			if name == q.resource {
				totals = append(totals, t.s.m.mem.Allocatable(memory.Kind(kind), pos))
			}
		}
	}
	return func(n uint64) int { return fewest(totals, n) }
}

func (t *trial) step(k *MemoryRequest) uint64 {
	if size, ok := strings.CutPrefix(k.Resource, "hugepages-"); ok {
		if page, err := topology.ParseBytes(size); err == nil && page > 0 {
			return page
		}
	}
	for _, step := range []uint64{1 << 20, 1 << 10} {
		if k.Bytes%step == 0 {
			return step
		}
	}
	return 1
}

// The annotations that are removed or set, as package wire spells them.
const (
	policyWish    = "berth.dev/policy"
	scopeWish     = "berth.dev/scope"
	cpusWish      = "berth.dev/cpus"
	exclusiveWish = "berth.dev/exclusive"
	l3Wish        = "berth.dev/l3"
	numaWish      = "berth.dev/numa-nodes"
	devicesWish   = "berth.dev/devices"
)

// drops tries the pod without each of its wishes in turn. It tries a milder policy only if Berth
// decides.
func (t *trial) drops() (out []Remedy) {
	for _, wish := range []struct {
		name string
		drop func(*Rules) bool // false if there is nothing to drop
	}{
		{policyWish + ": best-effort", func(r *Rules) bool {
			strict := t.s.m.rulesFor(*r).Policy > PolicyBestEffort && t.s.m.obey != nil
			r.Policy = PolicyBestEffort
			return strict && r.NUMANodes == 0 && r.Devices.PerNode == 0
		}},
		{cpusWish, func(r *Rules) bool {
			had := r.CPUs.Bind
			r.CPUs.Bind, r.CPUs.BindHow = joint.BindAny, 0
			return had != joint.BindAny
		}},
		{exclusiveWish, func(r *Rules) bool {
			had := r.CPUs.ExclusiveHow
			r.CPUs.Exclusive, r.CPUs.ExclusiveHow = 0, 0
			return had != 0
		}},
		{l3Wish, func(r *Rules) bool { had := r.CPUs.L3; r.CPUs.L3 = 0; return had != 0 }},
		{numaWish, func(r *Rules) bool { had := r.NUMANodes; r.NUMANodes = 0; return had != 0 }},
		{devicesWish, func(r *Rules) bool {
			had := r.Devices.Same != joint.Anywhere || r.Devices.PerNode != 0
			r.Devices.Same, r.Devices.SameHow, r.Devices.Joint, r.Devices.PerNode = joint.Anywhere, joint.Unset, 0, 0
			return had
		}},
	} {
		r := *t.r
		if wish.drop(&r.Rules) && r.sane() && t.admits(&r) {
			out = append(out, Remedy{Do: RemedyDrop, Wish: wish.name})
		}
	}
	return out
}

// Text returns the remedy in the imperative.
func (m *Remedy) Text() string {
	switch m.Do {
	case RemedyAsk:
		text := "ask for " + amountOf(m.Resource, m.Instead) + " instead of " + amountOf(m.Resource, m.Asked) + " " + nameOf(m.Resource)
		if !m.alone {
			text += " in container " + m.Container
		}
		return text
	case RemedyShare:
		if m.Container == "" {
			return "ask for fractions of CPUs in the init containers, so that they share CPUs"
		}
		return fmt.Sprintf("write cpu: %dm instead of %d in container %s, so that it shares CPUs", m.Asked*1000-100, m.Asked, m.Container)
	case RemedyDrop:
		if strings.Contains(m.Wish, ": ") {
			return "write " + m.Wish
		}
		return "leave " + m.Wish + " out"
	}
	return "wait until other pods end"
}

func amountOf(resource string, n uint64) string {
	if isMemory(resource) {
		return topology.FormatBytes(n)
	}
	return strconv.FormatUint(n, 10)
}

func nameOf(resource string) string {
	if resource == cpuResource {
		return "CPUs"
	}
	return resource
}

// remedy returns the advice that follows from Remedies, which Advise must have filled in.
func (r *Refusal) remedy() string {
	var now, then []string
	wait := false
	for i := range r.Remedies {
		switch m := &r.Remedies[i]; {
		case m.Do == RemedyWait:
			wait = true
		case m.Empty:
			then = append(then, m.Text())
		default:
			now = append(now, m.Text())
		}
	}
	var parts []string
	if wait {
		parts = append(parts, r.wait()...)
	}
	parts = append(parts, now...)
	if len(then) > 0 {
		parts = append(parts, either(then)+", and wait until other pods end")
	}
	if other := otherAdvice[r.Detail]; other != "" {
		parts = append(parts, other)
	}
	if len(parts) == 0 {
		parts = append(parts, r.elsewhere())
	}
	if r.milderHelps {
		return either(parts) + milderNodes
	}
	return either(parts)
}

func either(parts []string) string {
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + ", or " + parts[last]
}

// wait describes the resources that other pods must release.
func (r *Refusal) wait() []string {
	for i := range r.Needs {
		switch n := &r.Needs[i]; {
		case n.Free >= n.Asked:
		case n.Free == 0:
			return []string{"wait until other pods release " + n.unit() + " (none is free here)", "add nodes"}
		default:
			return []string{"wait until other pods release " + n.unit(), "add nodes"}
		}
	}
	return []string{"wait until other pods end (berth defrag shows which pods would have to move)"}
}

// elsewhere returns the advice if neither waiting nor another amount of one resource helps.
func (r *Refusal) elsewhere() string {
	for i := range r.Needs {
		if n := &r.Needs[i]; n.lacksEver() {
			return fmt.Sprintf("use other nodes: this one has %s %s for pods in total", n.amount(n.total()), n.unit())
		}
	}
	return "use other nodes: neither fewer pods nor another amount of one resource makes this one admit the pod"
}

// otherAdvice has advice that Remedies cannot express.
var otherAdvice = map[Detail]string{
	CPUAccounting:      "switch distribute-cpus-across-numa off",
	DefectHang:         "use nodes without distribute-cpus-across-numa",
	DefectTooComplex:   "use nodes without distribute-cpus-across-numa",
	DefectSlowMerge:    "use nodes with fewer NUMA nodes",
	DefectForeignCPUs:  "use nodes whose cores have equally many threads",
	DefectRestartKills: "upgrade the node's kubelet to 1.37, whose restarts kill no pod",
	DefectUnequalGroup: "give all NUMA nodes the same kinds of huge pages",
	DefectWideDevices:  DefectWideDevices.Advice(),
	Withholds:          "add \",preferred\" to berth.dev/exclusive, or let the administrator name the namespace in exclusiveNamespaces",
}

// fixed are the Details whose advice does not depend on the requested amounts.
var fixed = []Detail{MemoryNotInteger, NoMemoryAsked, NoneToShare, EmptySharedPool, DefectLateDevices, DefectRestartRepeats, DeviceUnregistered, NoHealthyDevice, HeldDeviceUnhealthy, DeviceRequestChanged, PodLevelOff,
	DefectMissingMemoryKind, DefectNoRegularMemory, DefectVanishedDevice, DefectMemoryUnderflow, BadRequest, PodLevelUndecided, DevicesUndecided,
	DevicesNowhere, DevicesOpen, DevicesApart, ProviderWrong, ProviderElsewhere, KeptForDevices, PolicyUnsupported, UnequalCores}
