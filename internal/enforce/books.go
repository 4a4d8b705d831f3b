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

// Container is a container as the runtime reports it.
type Container struct {
	ID  string
	Pod string // the id of the sandbox
	// UID is the kubelet's UID of the pod. Short is the container's own name.
	UID, Short string
	Name       string // namespace/pod/container, for messages
	// Decision is the decision about the container in the Binding, or nil. Fault is the reason why
	// the pod's annotation is not valid, or "".
	Decision *placement.ContainerDecision
	Fault    string
	Created  int64 // Unix nanoseconds; Synchronize orders containers by this time
	Now      Set   // the CPUs and memory nodes of the container according to the runtime
	// asks are the container's amounts in the runtime. The field trimmed has smaller amounts that
	// the container gets instead when it starts; 0 means that the amount is not replaced. The field
	// decides means that the scheduler decides on the amounts, because the pod's limits equal its
	// requests.
	asks, trimmed amounts
	decides       bool
	// Begins means that the container has been created and has not started.
	Begins bool
	// Tokens is the number of devices of each resource that the kubelet has allocated to the
	// container.
	Tokens map[string]int
	// Given has the container's environment variables as the runtime reports them, among them the
	// variables that name its devices. It is nil if Tokens is nil.
	Given map[string]string
	// Orphan means that the runtime does not report the container's sandbox, so the decision is not
	// known.
	Orphan bool
}

// Set has the CPUs and memory nodes of a container.
type Set struct {
	CPUs topology.CPUSet
	// Mems are the memory nodes; 0 means that they are not set.
	Mems topology.NUMASet
	// Pinned means that the CPUs are exclusive.
	Pinned bool
}

// Update is a move: new CPUs and memory nodes for a running container.
type Update struct {
	ID  string
	Set Set
	// gets are the amounts that the container gets with the move.
	gets amounts
}

// Mode is what Books does with a new container whose decision cannot be carried out.
type Mode uint8

// The modes.
const (
	// Hold, the zero value, does not let the container start. The kubelet tries again, and the CPUs
	// may then be free.
	Hold Mode = iota
	// Confine lets the container run on the shared CPUs.
	Confine
)

// HeldError is the error for a container that must not start, with the reason.
type HeldError struct {
	Container string
	Why       string
}

func (e *HeldError) Error() string { return "berth holds container " + e.Container + ": " + e.Why }

// Complaint names a container that does not run as decided or may not start, and the reason.
type Complaint struct{ Container, Why string }

// Books records the CPUs of each container on a node. It is not safe for concurrent use.
type Books struct {
	now      func() time.Time
	machine  *topology.Machine
	reserved topology.CPUSet
	mode     Mode
	all      map[string]*entry // by container id
	// claims has the CPUs of pinned containers that had to wait, usually because a shared container
	// was just starting on these CPUs. The keys are sandbox and name. Until the pinned container
	// starts, no other shared container starts on these CPUs. A claim expires if the kubelet does
	// not try to start the container again, because the runtime may not report that the pod is
	// gone.
	claims  map[claimant]claim
	offered Offered
	// found are the sandboxes of the last Synchronize. A restarted runtime may not report when they
	// stop.
	found map[string]bool
	// newest are the decisions for pods that were resized, by UID.
	newest map[string]*Decided
	// lives reports whether a container has processes. It always returns false if Plugin.Lives is
	// nil.
	lives func(id string) bool
	// online reads the machine's present online CPUs. It is nil if all are always online. A
	// container in a cpuset without an online CPU runs on its parent's CPUs, which all containers
	// share (cpuset.cpus.effective, Documentation/admin-guide/cgroup-v2.rst).
	online func() (topology.CPUSet, error)
}

// settleLimit is the time for which Books does not move a container that has not started. After
// this time it sends a move, and sends it again when the container starts.
const settleLimit = time.Minute

// settling reports whether the container cannot be moved yet.
func (b *Books) settling(e *entry) bool {
	return e.lost || e.unsettled && b.now().Sub(e.since) < settleLimit
}

// claimant identifies a container that waits for CPUs.
type claimant struct{ pod, name string }

// claim has the CPUs for which a container waits, and the time when it was last tried.
type claim struct {
	cpus topology.CPUSet
	at   time.Time
}

// entry is a container in the Books. Its CPUs belong to its pod until the sandbox has stopped.
// While the container does not run, shared containers may use them.
type entry struct {
	Container
	running bool
	// unsettled means that the runtime may lose a move, because the container is starting or an
	// unsolicited move is under way. In this state Books does not move the container, and
	// containers that need its CPUs wait.
	unsettled bool
	// since is the time when the container became unsettled, or when its last move failed. It
	// limits the wait, because a runtime may never report that the start of a container failed.
	since time.Time
	// doubt means that a move must still be sent, or that the runtime may have lost the last move.
	doubt bool
	// lost means that the runtime no longer lists the container although it still has processes.
	// Until they end, it keeps its CPUs, and containers that need them wait.
	lost bool
	set  Set
	// shut are the CPUs that no other container may use: the container's own CPUs, and the CPUs
	// that stay idle for it.
	shut      topology.CPUSet
	complaint string
	// devices belong to the pod until the sandbox has stopped. The field without is the reason why
	// the container runs without the decided devices, or why the decision is invalid.
	devices []placement.DeviceAllocation
	without string
	refitting
	// moved are the moves in the reply to the container's creation. They are certain only after the
	// container has started, because a runtime that fails after the reply carries out none of them.
	moved []Update
}

// NewBooks returns empty books. There must be reserved CPUs. No new container is pinned to them, so
// shared containers can use them when all other CPUs are pinned.
func NewBooks(m *topology.Machine, reserved topology.CPUSet, mode Mode) (*Books, error) {
	if reserved.IsEmpty() || !reserved.IsSubsetOf(&m.Online) {
		return nil, fmt.Errorf("reserved CPUs %q: want at least one CPU, and only online CPUs (%s)", reserved, m.Online)
	}
	return &Books{now: time.Now, machine: m, reserved: reserved, mode: mode, all: map[string]*entry{}, claims: map[claimant]claim{}, found: map[string]bool{}, newest: map[string]*Decided{},
		lives: func(string) bool { return false }}, nil
}

// Create returns the CPUs and memory nodes of a new container, and the moves that must come first.
// A *HeldError means that the container must not start.
func (b *Books) Create(c Container) (Set, []Update, error) {
	b.bury()
	b.newer(&c)
	c.trim()
	e, err := b.admit(c, b.mode)
	if err != nil {
		return Set{}, nil, err
	}
	if _, again := b.claims[claimant{c.Pod, c.Name}]; c.trimmed != (amounts{}) && !again {
		b.claims[claimant{c.Pod, c.Name}] = claim{e.shut, b.now()}
		return Set{}, nil, &HeldError{c.Name, undecided}
	}
	if why := b.giveDevices(e); why != "" { // devices are never shared
		return Set{}, nil, &HeldError{c.Name, why}
	}
	maps.DeleteFunc(b.all, func(_ string, o *entry) bool { // an earlier instance of the same container
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
			return Set{}, nil, &HeldError{c.Name, "no CPU is free on the NUMA nodes where it has CPU shares"}
		}
	}
	e.moved = b.spread(c.ID)
	for _, u := range e.moved {
		b.all[u.ID].doubt = true
	}
	return e.set, e.moved, nil
}

// arrived records that the runtime has carried out the moves in the reply to a container's
// creation.
func (b *Books) arrived(e *entry) {
	for _, u := range e.moved {
		if o := b.all[u.ID]; o != nil && o.set == u.Set && !o.unsettled {
			o.doubt = false
		}
	}
	e.moved = nil
}

// admit returns an entry for a container. If the decision names CPUs and can be carried out, the
// entry is pinned. If it cannot be carried out, admit returns a *HeldError in the mode Hold, and
// otherwise a shared entry with a complaint.
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

// adopt returns an entry for a running container with an unknown decision. A container with
// reserved CPUs, or without any set of CPUs, counts as shared. Any other container counts as
// pinned, and keeps its CPUs.
func (b *Books) adopt(c Container) *entry {
	e := &entry{Container: c, complaint: "has no known decision, because the runtime does not report its sandbox"}
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

// asleep explains which offline CPUs prevent the start of a container, or returns "". A pinned
// container needs all of its CPUs online, a shared container at least one.
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
		return "the shared CPUs that it may use, " + pool.String() + ", are offline"
	}
	return ""
}

// inTheWay names a shared container that would have to leave the CPUs of a pinned container but
// cannot be moved yet. It returns "" if there is none.
func (b *Books) inTheWay(e *entry) string {
	for _, id := range b.ids() {
		o := b.all[id]
		if both := e.shut.And(&o.set.CPUs); o.running && b.settling(o) && !o.set.Pinned && e.set.Pinned && !both.IsEmpty() {
			if o.lost {
				return "CPUs " + both.String() + " are shared by " + o.Name + ", and " + lostText
			}
			return "CPUs " + both.String() + " are shared by " + o.Name + ", which is just starting there: the kubelet tries again"
		}
	}
	return ""
}

const lostText = "the runtime no longer lists that container, although it has processes"

// bury removes lost containers without processes, and expired claims.
func (b *Books) bury() {
	maps.DeleteFunc(b.claims, func(_ claimant, c claim) bool { return b.now().Sub(c.at) > heldFor })
	maps.DeleteFunc(b.all, func(id string, e *entry) bool { return e.lost && !b.lives(id) })
}

// Begun records that a container has started, and returns a move if one is now due. The caller may
// send the move unsolicited: it first calls Moving, and then Moved or Failed. Otherwise a later
// reply contains the move.
func (b *Books) Begun(id string) (u Update, due bool) {
	e := b.all[id]
	if e == nil || !e.running {
		return Update{}, false
	}
	e.unsettled = false
	b.arrived(e)
	set := b.due(e)
	return Update{id, set, e.carries()}, e.doubt || set != e.set
}

// Moving records that an unsolicited move was sent to the runtime. Until Moved, the container
// counts as running on its old and its new CPUs.
func (b *Books) Moving(u Update) {
	if e := b.all[u.ID]; e != nil {
		e.unsettled, e.since, e.set.CPUs = true, b.now(), e.set.CPUs.Or(&u.Set.CPUs) // no change if pinned
	}
}

// Moved records that the runtime has carried out a move, and returns the next move of the container
// if one is due.
func (b *Books) Moved(u Update) (next Update, due bool) {
	if e := b.all[u.ID]; e != nil {
		e.set.CPUs, e.doubt = u.Set.CPUs, false
		e.carried(u.gets)
	}
	return b.Begun(u.ID)
}

// Failed records that the runtime may not have carried out a move. The container counts as running
// on its old and its new CPUs. The move is repeated in the next reply to the runtime, or when
// Overdue returns it.
func (b *Books) Failed(id string) {
	if e := b.all[id]; e != nil {
		e.unsettled, e.doubt, e.since = false, true, b.now()
	}
}

// retryAfter is the time after which Overdue returns a failed move.
const retryAfter = time.Second

// Overdue returns the moves that must still be sent or may have been lost, if no reply to the
// runtime has contained them since. It omits a move that failed less than retryAfter ago.
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

// Renew switches to a new machine and new reserved CPUs. Overdue returns the resulting moves.
// Pinned containers keep their CPUs, even if these are now reserved. If Renew returns an error,
// nothing has changed. It returns the same errors as NewBooks.
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

// memsOf returns the memory nodes to which the decision binds the container, or 0.
func memsOf(d *placement.ContainerDecision) (nodes topology.NUMASet) {
	if d.Bounds&placement.BoundMemory == 0 {
		return 0
	}
	for i := range d.Memory {
		nodes |= d.Memory[i].NUMA
	}
	return nodes
}

// samePod reports whether two containers belong to one pod. A pod may have two sandboxes, because
// after a reboot the kubelet creates another one before it removes the first.
func samePod(a, b *Container) bool { return a.Pod == b.Pod || a.UID != "" && a.UID == b.UID }

// problem describes why the container cannot have its CPUs, or returns "". Containers of one pod
// may have the same CPUs, because an init container and a later container do not run at the same
// time. If the CPUs of a running container become reserved, it keeps them as long as the system has
// another reserved CPU.
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

// leavesReserved reports whether a reserved CPU is left for the system after the container gets its
// CPUs.
func (b *Books) leavesReserved(e *entry) bool {
	left := b.reserved.AndNot(&e.Decision.CPUs)
	for _, o := range b.all {
		if o.set.Pinned {
			left = left.AndNot(&o.shut)
		}
	}
	return !left.IsEmpty()
}

// shutFor returns the CPUs of a decision, and the CPUs that stay idle because of it. A reserved CPU
// never stays idle, because the system runs on it.
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

// pool returns the CPUs for shared containers. It excludes the exclusive CPUs of running
// containers, and of containers that only wait until shared containers have left.
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

// poolFor returns the part of the pool that a shared container may use. A container with an unknown
// decision gets no additional CPUs.
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

// sharedFor returns the CPUs of a running shared container. If no CPU is left for it, it uses the
// reserved CPUs, because it already runs, and an empty set would mean all CPUs.
func (b *Books) sharedFor(e *entry) topology.CPUSet {
	if cpus := b.poolFor(e); !cpus.IsEmpty() {
		return cpus
	}
	return b.reserved
}

// due returns the CPUs and memory nodes that a running container must have now.
func (b *Books) due(e *entry) Set {
	set := e.set
	if !set.Pinned {
		set.CPUs = b.sharedFor(e)
	}
	return set
}

// spread returns the moves of running shared containers whose pool has changed, and moves that may
// not have arrived. The parameter but is the id of a container to omit. spread also omits
// containers that are starting or being moved, which keep their CPUs.
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

// ids returns the ids of the containers in a fixed order, so that equal books give equal answers.
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

// Remove removes a container. Its CPUs and devices belong to its pod until the pod has stopped. If
// the runtime may not report that stop (b.found), Remove frees them at once, except those that
// another container of the pod also has.
func (b *Books) Remove(id string) {
	if e := b.all[id]; e != nil && (!e.set.Pinned && len(e.devices) == 0 || b.found[e.Pod]) {
		delete(b.all, id)
	} else if e != nil {
		e.running, e.lost = false, false
	}
}

// RemovePod removes a pod whose sandbox has stopped. A lost container keeps its CPUs while it has
// processes, because the runtime does not stop it.
func (b *Books) RemovePod(pod string) {
	maps.DeleteFunc(b.all, func(id string, e *entry) bool { return e.Pod == pod && !(e.lost && b.lives(id)) })
	delete(b.found, pod)
	maps.DeleteFunc(b.claims, func(c claimant, _ claim) bool { return c.pod == pod })
}

// Synchronize sets the content of the Books to the runtime's containers and sandboxes, and returns
// the moves that give every container its CPUs. If two running containers need the same CPUs, the
// older container keeps them, and the other container moves to the shared pool.
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

// wantedMems returns the container's memory nodes according to the runtime, or 0 if the decision
// does not bind memory.
func (e *entry) wantedMems() topology.NUMASet {
	if e.set.Mems == 0 {
		return 0
	}
	return e.Now.Mems
}

// Booked is the state of a container in the books.
type Booked struct {
	Container
	// Running means that the container runs, on the CPUs in Set. A container that does not run
	// keeps its CPUs.
	Running bool
	// Settled means that the container is not starting, and that the runtime is not carrying out a
	// move of it.
	Settled bool
	Set     Set
	// Leaving are CPUs that the container must leave but may still be using. Turn is the value for
	// Found.Turn. Refits means that the container's cgroup must be read, to know which CPUs and how
	// much memory it may still use.
	Leaving topology.CPUSet
	Turn    uint64
	Refits  bool
	// Moves means that the container was resized, and that its CPUs are not certain yet.
	Moves bool
	// Memory is the memory that the container may use. Generation is that of the newest decision
	// about its pod; 0 means that the pod was not resized.
	Memory     []placement.MemoryBlock
	Generation uint64
	// Devices are the container's devices. While it does not run, they stay with its pod.
	Devices []placement.DeviceAllocation
	// Why is the reason why the container does not run as decided, or "".
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

// why explains why a container does not run as decided, or returns "".
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
