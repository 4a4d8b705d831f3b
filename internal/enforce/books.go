package enforce

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// Container is a container as the runtime has it.
type Container struct {
	ID  string
	Pod string // the id of its sandbox
	// UID is the pod's, as the kubelet has it; Short is the container's own name.
	UID, Short string
	Name       string // for people: namespace/pod/container
	// Decision is what the Binding says about it; nil without one. Fault says what is wrong with an
	// annotation that cannot be believed.
	Decision *placement.ContainerDecision
	Fault    string
	Created  int64 // nanoseconds; orders what Synchronize finds
	Now      Set   // what it runs on, as the runtime says
	// asks are its amounts as the runtime says, trimmed those that it gets instead when it begins;
	// 0 for none. decides means that the scheduler decides about them: the pod's limits are its
	// requests.
	asks, trimmed amounts
	decides       bool
	// Begins means that it is made and has not started.
	Begins bool
	// Tokens is how many devices of each resource the kubelet has counted for it.
	Tokens map[string]int
	// Given are the variables, as the runtime has them, in which containers find their devices, by
	// name.
	Given map[string]string
	// Orphan means that the runtime does not report its sandbox, and so not its decision either.
	Orphan bool
}

// Set is where a container runs.
type Set struct {
	CPUs topology.CPUSet
	// Mems is the memory nodes; 0 leaves them alone.
	Mems topology.NUMASet
	// Pinned means that the CPUs are its own.
	Pinned bool
}

// Update moves a container.
type Update struct {
	ID  string
	Set Set
	// raise are amounts that it gets with the move.
	raise amounts
}

// Mode is what happens to a container whose decision cannot be carried out.
type Mode uint8

// The modes.
const (
	// Hold does not let it start: the kubelet tries again, and the CPUs may be free then. The zero
	// value.
	Hold Mode = iota
	// Confine lets it run in the shared pool.
	Confine
)

// HeldError is why a container does not begin.
type HeldError struct {
	Container string
	Why       string
}

func (e *HeldError) Error() string { return "berth holds container " + e.Container + ": " + e.Why }

// Complaint is a container that does not run as it was decided, or that came without a decision
// that can be believed.
type Complaint struct{ Container, Why string }

// Books records which container holds which CPUs of a node. It is not safe for concurrent use.
type Books struct {
	now      func() time.Time
	machine  *topology.Machine
	reserved topology.CPUSet
	mode     Mode
	all      map[string]*entry // by container
	// claims are the CPUs of pinned containers that wait until shared ones have begun, by sandbox
	// and name: no other shared one begins there before them. A claim expires if the container is
	// not tried again, because no message may come when its pod is gone.
	claims  map[claimant]claim
	offered Offered
	// found are the sandboxes that were there at the last Synchronize. A runtime that has started
	// again may never say that these have stopped.
	found map[string]bool
	// newest are the decisions for pods that were resized, by UID.
	newest map[string]*Decided
	// lives says about a container whether it has processes.
	lives func(id string) bool
	// online reads which CPUs of the machine are online at this moment; nil if all always are. In a
	// cpuset without an online CPU a container runs on its parent's, which are everybody's
	// (cpuset.cpus.effective, Documentation/admin-guide/cgroup-v2.rst).
	online func() (topology.CPUSet, error)
}

// settleLimit is how long nothing is taken from a container that has not started. After it a move
// is sent, and once more should it start.
const settleLimit = time.Minute

// settling reports whether the container may not be moved yet.
func (b *Books) settling(e *entry) bool {
	return e.lost || e.unsettled && b.now().Sub(e.since) < settleLimit
}

// claimant is a container that waits.
type claimant struct{ pod, name string }

// claim is the CPUs that a container waits for, and when it was last tried.
type claim struct {
	cpus topology.CPUSet
	at   time.Time
}

// entry is a container in the books. Its CPUs are its pod's until the sandbox has stopped, also
// while it does not run; meanwhile shared containers may use them.
type entry struct {
	Container
	running bool
	// unsettled means that the runtime may lose a move: the container is beginning, or a move that
	// nobody asked for is under way. It is not moved meanwhile, and what needs its CPUs waits.
	unsettled bool
	// since is when that began. A runtime may never say that a container could not be started.
	since time.Time
	// doubt means that a move was sent when the runtime may have lost it.
	doubt bool
	// lost means that the runtime no longer lists it, and that it has processes. It stays where it
	// is, and what needs its CPUs waits, until it has none.
	lost bool
	set  Set
	// shut is the CPUs that no other container may use: its own CPUs and those that stay idle for
	// it.
	shut      topology.CPUSet
	complaint string
	// devices are its pod's until the sandbox has stopped. without explains why it runs without the
	// decided devices, or why the decision is invalid.
	devices []placement.DeviceAllocation
	without string
	refitting
	// moved are the containers that the answer to its creation moved. A runtime that fails after
	// that answer carries nothing out: the moves are certain when it has started.
	moved []Update
}

// NewBooks returns empty books. The reserved CPUs are never pinned, and must not be empty: shared
// containers have them when everything else is pinned.
func NewBooks(m *topology.Machine, reserved topology.CPUSet, mode Mode) (*Books, error) {
	if reserved.IsEmpty() || !reserved.IsSubsetOf(&m.Online) {
		return nil, fmt.Errorf("reserved CPUs %q: want CPUs of %s, at least one", reserved, m.Online)
	}
	return &Books{now: time.Now, machine: m, reserved: reserved, mode: mode, all: map[string]*entry{}, claims: map[claimant]claim{}, found: map[string]bool{}, newest: map[string]*Decided{},
		lives: func(string) bool { return false }}, nil
}

// Create returns the CPUs and memory nodes of a new container, and the containers that must be
// moved first. A *HeldError means that the container must not start.
func (b *Books) Create(c Container) (Set, []Update, error) {
	b.bury()
	b.newer(&c)
	c.trim()
	e, err := b.admit(c, b.mode)
	if err != nil {
		return Set{}, nil, err
	}
	if why := b.giveDevices(e); why != "" { // nobody shares a device
		return Set{}, nil, &HeldError{c.Name, why}
	}
	maps.DeleteFunc(b.all, func(_ string, o *entry) bool { // an earlier life of the same container
		return samePod(&o.Container, &c) && o.Name == c.Name && (!o.running || o.unsettled)
	})
	if why := b.inTheWay(e); why != "" {
		b.claims[claimant{c.Pod, c.Name}] = claim{e.shut, b.now()}
		return Set{}, nil, &HeldError{c.Name, why}
	}
	if why := b.asleep(e); why != "" {
		return Set{}, nil, &HeldError{c.Name, why}
	}
	delete(b.claims, claimant{c.Pod, c.Name})
	b.all[c.ID] = e
	e.running, e.unsettled, e.since = true, true, b.now()
	if !e.set.Pinned {
		if e.set.CPUs = b.poolFor(e); e.set.CPUs.IsEmpty() {
			delete(b.all, c.ID)
			return Set{}, nil, &HeldError{c.Name, "no CPU is left for it on the NUMA nodes of its shares"}
		}
	}
	e.moved = b.spread(c.ID)
	for _, u := range e.moved {
		b.all[u.ID].doubt = true
	}
	return e.set, e.moved, nil
}

// arrived notes that the moves in the answer to a container's creation were carried out.
func (b *Books) arrived(e *entry) {
	for _, u := range e.moved {
		if o := b.all[u.ID]; o != nil && o.set == u.Set && !o.unsettled {
			o.doubt = false
		}
	}
	e.moved = nil
}

// admit makes an entry of a container, pinned if its decision can be carried out.
func (b *Books) admit(c Container, mode Mode) (*entry, error) {
	if c.Orphan {
		return b.adopt(c), nil
	}
	e := &entry{Container: c}
	why := c.Fault
	if why == "" && c.Decision != nil && !c.Decision.CPUs.IsEmpty() {
		e.shut = b.shutFor(c.Decision)
		if why = b.problem(e); why == "" {
			e.set = Set{CPUs: c.Decision.CPUs, Mems: memsOf(c.Decision), Pinned: true}
			return e, nil
		}
	}
	if why != "" && mode == Hold {
		return nil, &HeldError{c.Name, why}
	}
	e.complaint, e.shut = why, topology.CPUSet{}
	if why == "" && c.Decision != nil {
		e.set.Mems = memsOf(c.Decision)
	}
	return e, nil
}

// adopt makes an entry of a running container whose decision nobody knows. One on reserved CPUs is
// shared; any other is taken for pinned, and stays where it is.
func (b *Books) adopt(c Container) *entry {
	e := &entry{Container: c, complaint: "has a sandbox that the runtime does not report, and so no known decision"}
	if c.Now.CPUs.IsEmpty() || c.Now.CPUs.Intersects(&b.reserved) {
		return e
	}
	e.set, e.shut = Set{CPUs: c.Now.CPUs, Pinned: true}, c.Now.CPUs
	for _, o := range b.all {
		if !samePod(&o.Container, &c) {
			e.shut = e.shut.AndNot(&o.shut)
		}
	}
	return e
}

// asleep explains why a container cannot begin on CPUs that are not online now; "" if it can. A
// pinned one needs all of its CPUs, a shared one any.
func (b *Books) asleep(e *entry) string {
	if b.online == nil {
		return ""
	}
	up, err := b.online()
	if err != nil {
		return "it is not known which CPUs are online: " + err.Error()
	}
	if down := e.set.CPUs.AndNot(&up); e.set.Pinned && !down.IsEmpty() {
		return "its decision names CPUs " + down.String() + ", which are offline"
	}
	if pool := b.poolFor(e); !e.set.Pinned && !pool.IsEmpty() && !pool.Intersects(&up) {
		return "the CPUs that it would share, " + pool.String() + ", are offline"
	}
	return ""
}

// inTheWay names a shared container that would have to leave the CPUs of a pinned one, and cannot
// be moved yet; "" for none.
func (b *Books) inTheWay(e *entry) string {
	for _, id := range b.ids() {
		o := b.all[id]
		if both := e.shut.And(&o.set.CPUs); o.running && b.settling(o) && !o.set.Pinned && e.set.Pinned && !both.IsEmpty() {
			if o.lost {
				return "CPUs " + both.String() + " are shared by " + o.Name + ", and " + lostText
			}
			return "CPUs " + both.String() + " are shared by " + o.Name + ", which is just beginning there: this passes"
		}
	}
	return ""
}

const lostText = "the runtime does not list it, though it has processes"

// bury forgets the containers that the runtime did not list and that have no processes any more,
// and claims that have lapsed.
func (b *Books) bury() {
	maps.DeleteFunc(b.claims, func(_ claimant, c claim) bool { return b.now().Sub(c.at) > heldFor })
	maps.DeleteFunc(b.all, func(id string, e *entry) bool { return e.lost && !b.lives(id) })
}

// Begun says that a container has started, and returns the move that has become due meanwhile. The
// runtime may not be able to take a move at this time. Whoever sends the move calls Moved when it
// has arrived; a move that is not sent comes with a later answer.
func (b *Books) Begun(id string) (u Update, due bool) {
	e := b.all[id]
	if e == nil || !e.running {
		return Update{}, false
	}
	e.unsettled = false
	b.arrived(e)
	set := b.due(e)
	return Update{id, set, e.raises()}, e.doubt || set != e.set
}

// Moving records that an unsolicited move is on its way to the runtime. Until Moved the container
// counts as running in both places.
func (b *Books) Moving(u Update) {
	if e := b.all[u.ID]; e != nil {
		e.unsettled, e.since, e.set.CPUs = true, b.now(), e.set.CPUs.Or(&u.Set.CPUs) // the same if it is pinned
	}
}

// Moved records that a move has arrived, and returns the next move of the container if one is due.
func (b *Books) Moved(u Update) (next Update, due bool) {
	if e := b.all[u.ID]; e != nil {
		e.set.CPUs, e.doubt = u.Set.CPUs, false
		e.raised(u.raise)
	}
	return b.Begun(u.ID)
}

// Failed records that a move has not arrived, or may not have arrived. The container counts as
// running in both places, and the move is repeated with the next answer or by Overdue.
func (b *Books) Failed(id string) {
	if e := b.all[id]; e != nil {
		e.unsettled, e.doubt, e.since = false, true, b.now()
	}
}

// retryAfter is how long a move that failed waits until it is sent by itself.
const retryAfter = time.Second

// Overdue returns moves that failed a while ago and that no answer to the runtime has carried
// since.
func (b *Books) Overdue() []Update {
	var out []Update
	b.advance()
	for _, id := range b.ids() {
		e := b.all[id]
		if !e.doubt || !e.running || e.unsettled || e.lost || b.now().Sub(e.since) < retryAfter {
			continue
		}
		if u, due := b.Begun(id); due {
			out = append(out, u)
		}
	}
	return out
}

// Renew switches to a new machine and new reserved CPUs. The resulting moves are marked as
// doubtful, and Overdue returns them. Pinned CPUs stay, even if they are now reserved. It returns
// the errors of NewBooks; then nothing has changed.
func (b *Books) Renew(m *topology.Machine, reserved topology.CPUSet) error {
	if _, err := NewBooks(m, reserved, b.mode); err != nil {
		return err
	}
	b.machine, b.reserved = m, reserved
	for _, e := range b.all {
		if e.set.Pinned && e.Decision != nil && !e.Orphan {
			e.shut = b.shutNow(e)
		}
	}
	for _, e := range b.all {
		if e.running && !e.set.Pinned && e.set.CPUs != b.sharedFor(e) {
			e.doubt = true
		}
	}
	return nil
}

// Has reports whether the container is in the books.
func (b *Books) Has(id string) bool { return b.all[id] != nil }

// memsOf returns the memory nodes that the decision binds the container to, 0 for none.
func memsOf(d *placement.ContainerDecision) (nodes topology.NUMASet) {
	if d.Bounds&placement.BoundMemory == 0 {
		return 0
	}
	for i := range d.Memory {
		nodes |= d.Memory[i].NUMA
	}
	return nodes
}

// samePod reports whether two containers are of one pod. That may have two sandboxes: after a
// reboot the kubelet makes another one before it removes the first.
func samePod(a, b *Container) bool { return a.Pod == b.Pod || a.UID != "" && a.UID == b.UID }

// problem describes what keeps the container from its CPUs, "" for nothing. Containers of one pod
// may have the same: they take turns. A container that runs on its CPUs stays there when they
// become reserved, as long as the system keeps another reserved CPU.
func (b *Books) problem(e *entry) string {
	if extra := e.Decision.CPUs.AndNot(&b.machine.Online); !extra.IsEmpty() {
		return "its decision names CPUs " + extra.String() + ", which the machine does not have"
	}
	stays := e.Now.CPUs == e.Decision.CPUs && b.leavesReserved(e)
	if extra := e.Decision.CPUs.And(&b.reserved); !extra.IsEmpty() && !stays {
		return "its decision names CPUs " + extra.String() + ", which are reserved"
	}
	for _, id := range b.ids() {
		o := b.all[id]
		if samePod(&o.Container, &e.Container) || o.ID == e.ID {
			continue
		}
		if both := e.shut.And(&o.shut); !both.IsEmpty() {
			return "CPUs " + both.String() + " are held by " + o.Name
		}
	}
	return ""
}

// leavesReserved reports whether a reserved CPU is left when the container has its own.
func (b *Books) leavesReserved(e *entry) bool {
	left := b.reserved.AndNot(&e.Decision.CPUs)
	for _, o := range b.all {
		if o.set.Pinned {
			left = left.AndNot(&o.shut)
		}
	}
	return !left.IsEmpty()
}

// shutFor returns the CPUs of a decision and the CPUs that stay idle for it. Reserved CPUs do not
// count as idle: the system runs there.
func (b *Books) shutFor(d *placement.ContainerDecision) topology.CPUSet {
	var out topology.CPUSet
	switch d.Exclusive {
	case joint.ExclusiveCore:
		for i := range b.machine.Cores {
			if k := &b.machine.Cores[i]; k.CPUs.Intersects(&d.CPUs) {
				out = out.Or(&k.CPUs)
			}
		}
	case joint.ExclusiveNUMA:
		for i := range b.machine.NUMANodes {
			if n := &b.machine.NUMANodes[i]; n.CPUs.Intersects(&d.CPUs) {
				out = out.Or(&n.CPUs)
			}
		}
	}
	out = out.AndNot(&b.reserved)
	return out.Or(&d.CPUs)
}

// pool is what is left to shared containers: every CPU that no container has to itself that runs,
// or waits only for shared ones.
func (b *Books) pool() topology.CPUSet {
	p := b.machine.Online
	for _, e := range b.all {
		if e.running && e.set.Pinned {
			p = p.AndNot(&e.shut)
		}
	}
	for _, c := range b.claims {
		if b.now().Sub(c.at) <= heldFor {
			p = p.AndNot(&c.cpus)
		}
	}
	return p
}

// poolFor is the part of the pool that a shared container may use. One whose decision is not known
// gets no CPU that it does not have.
func (b *Books) poolFor(e *entry) topology.CPUSet {
	p := b.pool()
	if e.Orphan && !e.Now.CPUs.IsEmpty() {
		return p.And(&e.Now.CPUs)
	}
	if e.complaint != "" || e.Decision == nil || e.Decision.Bounds&placement.BoundCPUs == 0 {
		return p
	}
	var nodes topology.CPUSet
	for _, s := range e.Decision.Shares {
		if n := b.machine.NUMANode(s.NUMA); n != nil {
			nodes = nodes.Or(&n.CPUs)
		}
	}
	return p.And(&nodes)
}

// sharedFor is where a running shared container belongs. One that is left without a CPU keeps to
// the reserved ones: it runs already, and an empty set would let it loose.
func (b *Books) sharedFor(e *entry) topology.CPUSet {
	if cpus := b.poolFor(e); !cpus.IsEmpty() {
		return cpus
	}
	return b.reserved
}

// due is where a running container belongs now.
func (b *Books) due(e *entry) Set {
	set := e.set
	if !set.Pinned {
		set.CPUs = b.sharedFor(e)
	}
	return set
}

// spread returns the moves of running shared containers whose pool has changed, and the moves that
// may not have arrived. It leaves out one container, and containers that are not settled: these
// lose no CPUs.
func (b *Books) spread(but string) []Update {
	var out []Update
	for _, id := range b.ids() {
		e := b.all[id]
		if id == but || !e.running || b.settling(e) {
			continue
		}
		set := b.due(e)
		if e.doubt || set != e.set {
			e.set, e.doubt = set, e.unsettled
			out = append(out, Update{ID: id, Set: set})
		}
	}
	return out
}

// ids returns the containers in a fixed order, so that equal books give equal answers.
func (b *Books) ids() []string { return slices.Sorted(maps.Keys(b.all)) }

// Stop records that a container has stopped, and returns the resulting moves. Its CPUs still belong
// to its pod, because it may start again.
func (b *Books) Stop(id string) []Update {
	e := b.all[id]
	if e == nil || !e.running {
		return nil
	}
	e.running, e.lost = false, false
	b.bury()
	return b.spread(id)
}

// Remove forgets a removed container. Its CPUs and devices still belong to its pod until the pod
// has stopped. If the runtime does not report this, they belong to it until its last container is
// removed, which is when the kubelet has finished with the pod.
func (b *Books) Remove(id string) {
	if e := b.all[id]; e != nil && (!e.set.Pinned && len(e.devices) == 0 || b.found[e.Pod]) {
		delete(b.all, id)
	} else if e != nil {
		e.running, e.lost = false, false
	}
}

// RemovePod forgets a pod whose sandbox has stopped, in which nothing starts any more. The runtime
// does not stop a container that it does not list: such a container keeps its CPUs while it has
// processes.
func (b *Books) RemovePod(pod string) {
	maps.DeleteFunc(b.all, func(id string, e *entry) bool { return e.Pod == pod && !(e.lost && b.lives(id)) })
	delete(b.found, pod)
	maps.DeleteFunc(b.claims, func(c claimant, _ claim) bool { return c.pod == pod })
}

// Synchronize begins again with what the runtime has, containers that run and all sandboxes, and
// returns the moves that bring everything to where it belongs. What runs cannot be held: of two
// that collide, the older one keeps its CPUs and the other is confined.
func (b *Books) Synchronize(running []Container, sandboxes ...string) []Update {
	before := b.all
	b.all = map[string]*entry{}
	clear(b.claims)
	clear(b.found)
	for _, id := range sandboxes {
		b.found[id] = true
	}
	told := map[string]bool{}
	running = slices.Clone(running)
	for i := range running {
		c := &running[i]
		b.found[c.Pod], told[c.ID] = true, true
		if old := before[c.ID]; c.Orphan && old != nil && !old.Orphan {
			c.Decision, c.Fault, c.Name, c.UID, c.Orphan = old.Decision, old.Fault, old.Name, old.UID, false
		}
		b.newer(c)
	}
	slices.SortFunc(running, func(x, y Container) int {
		switch {
		case x.Orphan && !y.Orphan:
			return 1
		case y.Orphan && !x.Orphan:
			return -1
		}
		return cmp.Or(cmp.Compare(x.Created, y.Created), cmp.Compare(x.ID, y.ID))
	})
	for id, e := range before {
		if e.running && !told[id] && b.lives(id) {
			e.lost, b.found[e.Pod], b.all[id] = true, true, e
		}
	}
	for _, c := range running {
		e, _ := b.admit(c, Confine)
		e.running = true
		if c.Orphan {
			e.devices = e.given()
		} else if e.without = b.giveDevices(e); e.without == "" {
			e.without = e.lacking()
		}
		b.all[c.ID] = e
	}
	b.resume(before)
	b.spread("")
	var out []Update
	for _, id := range b.ids() {
		if b.all[id].lost {
			continue
		}
		if e := b.all[id]; e.set != (Set{CPUs: e.Now.CPUs, Mems: e.wantedMems(), Pinned: e.set.Pinned}) {
			out = append(out, Update{ID: id, Set: e.set})
			e.doubt = e.Begins
		}
		b.all[id].unsettled, b.all[id].since = b.all[id].Begins, b.now()
	}
	return out
}

// wantedMems is what the runtime says about the memory nodes, where that matters.
func (e *entry) wantedMems() topology.NUMASet {
	if e.set.Mems == 0 {
		return 0
	}
	return e.Now.Mems
}

// Wanted returns the CPUs and memory nodes on which a running container should run.
func (b *Books) Wanted(id string) (Set, bool) {
	if e := b.all[id]; e != nil && e.running {
		return e.set, true
	}
	return Set{}, false
}

// Booked is a container that is in the books.
type Booked struct {
	Container
	// Running means that it runs, on Set. One that does not run keeps its CPUs.
	Running bool
	// Settled means that it does not just begin, and that no move of it is under way.
	Settled bool
	Set     Set
	// Leaving are CPUs that it was told to leave and may still run on. Turn is for Found. Refits
	// means that its cgroup decides what it has.
	Leaving topology.CPUSet
	Turn    uint64
	Refits  bool
	// Moves means that it was resized, and that it is not certain yet where it runs.
	Moves bool
	// Memory is what it may use. Generation is that of the newest decision for its pod, 0 for the
	// Binding's.
	Memory     []placement.MemoryBlock
	Generation uint64
	// Devices are the devices of the container, or of its pod while the container does not run.
	Devices []placement.DeviceAllocation
	// Why is why it does not run as it was decided; "" if it does.
	Why string
}

// All lists the containers, by id.
func (b *Books) All() []Booked {
	out := make([]Booked, 0, len(b.all))
	for _, id := range b.ids() {
		e := b.all[id]
		c := Booked{Container: e.Container, Running: e.running, Settled: !e.unsettled, Set: e.set, Devices: e.devices, Why: e.why(),
			Leaving: e.leaving, Turn: e.turn, Refits: e.next != nil || e.memory != nil || !e.leaving.IsEmpty(), Memory: e.memory}
		c.Moves = c.Refits && (e.doubt || e.next != nil || !e.leaving.IsEmpty())
		if e.Decision != nil && e.memory == nil {
			c.Memory = e.Decision.Memory
		}
		if d := b.newest[e.UID]; d != nil {
			c.Generation = d.Generation
		}
		out = append(out, c)
	}
	return out
}

// why explains why a container does not run as it was decided; "" if it does.
func (e *entry) why() string {
	if e.lost {
		return lostText
	}
	if e.waits != "" && e.complaint == "" {
		return e.waits
	}
	if e.complaint != "" && e.without != "" {
		return e.complaint + ", " + e.without
	}
	return e.complaint + e.without
}

// Complaints lists what does not run as decided, by container.
func (b *Books) Complaints() []Complaint {
	var out []Complaint
	for _, id := range b.ids() {
		if e := b.all[id]; e.why() != "" {
			out = append(out, Complaint{e.Name, e.why()})
		}
	}
	return out
}

// Check returns an error if the books are not sound: two pods hold the same CPUs or devices, a
// shared container is on an exclusive CPU, or it has no CPU.
func (b *Books) Check() error {
	pool := b.pool()
	for _, c := range b.claims { // what began before that is still there
		pool = pool.Or(&c.cpus)
	}
	for _, e := range b.all {
		if e.next != nil {
			pool = pool.Or(&e.shut)
		}
	}
	for _, id := range b.ids() {
		e := b.all[id]
		for _, other := range b.ids() {
			if o := b.all[other]; !samePod(&o.Container, &e.Container) && e.shut.Intersects(&o.shut) {
				return fmt.Errorf("%s and %s hold the same CPUs", e.Name, o.Name)
			}
		}
		for i := range e.devices {
			for _, device := range e.devices[i].IDs {
				if other := b.holder(e, device); other != "" {
					return fmt.Errorf("%s and %s hold the same device, %s", e.Name, other, device)
				}
			}
		}
		switch {
		case !e.running:
		case e.set.CPUs.IsEmpty():
			return fmt.Errorf("%s runs without a CPU set", e.Name)
		case !e.set.Pinned && !e.set.CPUs.IsSubsetOf(&pool):
			return fmt.Errorf("%s runs on %s, and %s are shared", e.Name, e.set.CPUs, pool)
		}
	}
	return nil
}
