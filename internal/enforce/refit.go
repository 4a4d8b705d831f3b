package enforce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// A pod can be resized in place (docs/protocol.md, "Resizes in place"). The agent reads the newer
// decision from the API server. Books moves the container with an unsolicited move, or in the reply
// to the kubelet's update.

// Decided is a decision about a pod. Decisions after a resize have a Generation of 2 or more.
type Decided struct {
	Generation uint64
	Containers []placement.ContainerDecision
}

func (d *Decided) of(container string) *placement.ContainerDecision {
	if d == nil {
		return nil
	}
	if i := slices.IndexFunc(d.Containers, func(c placement.ContainerDecision) bool { return c.Name == container }); i >= 0 {
		return &d.Containers[i]
	}
	return nil
}

// maxDecided is the maximum number of pods whose newer decisions are stored.
const maxDecided = 1024

// refitting is the progress of a container of a resized pod.
type refitting struct {
	// next is a newer decision that is not carried out yet, or nil. The field waits is the reason
	// why next has to wait, or "".
	next  *placement.ContainerDecision
	waits string
	// leaving are CPUs that the container must leave, until its cgroup shows that it has left them.
	// The field kept has the CPUs of leaving and the CPUs that stay idle because of them.
	leaving, kept topology.CPUSet
	// turn counts the moves, so that Found ignores a reading of the cgroup that is older than the
	// last move.
	turn uint64
	// memory is the memory that the container may still use: the maximum over its decisions, until
	// its cgroup shows the limit of the newest one. It is nil if the container was never resized.
	memory []placement.MemoryBlock
	// slim means that the container used less memory than decided when its cgroup was last read, so
	// that the limit can be lowered. The kubelet checks the same condition.
	slim bool
}

// Decide records a newer decision about a resized pod, and reports whether it has done so. It
// ignores decisions that are not newer, and decisions about further pods if it has decisions about
// maxDecided pods.
func (b *Books) Decide(uid string, d Decided) bool {
	known := b.newest[uid]
	if uid == "" || d.Generation < 2 || known != nil && d.Generation <= known.Generation || known == nil && len(b.newest) >= maxDecided {
		return false
	}
	b.newest[uid] = &d
	for _, id := range b.ids() {
		if e := b.all[id]; e.UID == uid && !e.Orphan {
			b.renew(e, d.of(e.Short))
		}
	}
	b.advance()
	return true
}

// Prune removes the decisions about pods without containers, unless the API has the pod. It returns
// the pods whose decisions are left.
func (b *Books) Prune(has func(uid string) bool) (left map[string]bool) {
	left = map[string]bool{}
	for uid := range b.newest {
		if has(uid) || b.knows(uid) {
			left[uid] = true
		} else {
			delete(b.newest, uid)
		}
	}
	return left
}

func (b *Books) knows(uid string) bool {
	for _, e := range b.all {
		if e.UID == uid {
			return true
		}
	}
	return false
}

// The method newer replaces the container's decision, which is from the Binding, with a newer one
// if the books have it.
func (b *Books) newer(c *Container) {
	if d := b.newest[c.UID].of(c.Short); d != nil && !c.Orphan {
		c.Decision, c.Fault = d, ""
	}
}

// renew records a newer decision about a container. If the container does not run and its new CPUs
// can be claimed, the decision takes effect at once.
func (b *Books) renew(e *entry, d *placement.ContainerDecision) {
	if d == nil || e.Decision == nil {
		return
	}
	if e.memory == nil {
		e.memory = e.Decision.Memory
	}
	e.memory = placement.MostMemory(e.memory, d.Memory)
	e.next = d
	if !e.running && b.claim(e, true) {
		b.apply(e)
		e.leaving, e.kept, e.shut, e.memory = topology.CPUSet{}, topology.CPUSet{}, b.shutFor(d), d.Memory
	}
}

// advance moves the containers whose newer decisions can be carried out now. Overdue and the
// replies to the runtime contain the moves.
func (b *Books) advance() {
	for _, id := range b.ids() {
		if e := b.all[id]; e.next != nil && e.running && !e.unsettled && !e.lost && b.claim(e, false) {
			b.apply(e)
		}
	}
}

// shutNow returns the CPUs that no other pod's container may use: the CPUs of the present decision,
// the CPUs that the container is leaving, and the CPUs that stay idle because of either. The set is
// empty for a container with shared CPUs.
func (b *Books) shutNow(e *entry) topology.CPUSet {
	if !e.set.Pinned {
		return topology.CPUSet{}
	}
	shut := b.shutFor(e.Decision)
	return shut.Or(&e.kept)
}

// claim takes the CPUs of the next decision, unless another pod has them. It reports whether the
// container may move to these CPUs, which requires that no shared container is left on them. In a
// reply to the runtime (inReply), the moves of settled shared containers come first, so these
// containers do not count.
func (b *Books) claim(e *entry, inReply bool) bool {
	add := b.shutFor(e.next)
	e.shut, e.waits = b.shutNow(e), ""
	if e.complaint != "" {
		e.waits = e.complaint
		return false
	}
	for _, id := range b.ids() {
		o := b.all[id]
		if both := add.And(&o.shut); !samePod(&o.Container, &e.Container) && !both.IsEmpty() {
			e.waits = "its new decision waits: CPUs " + both.String() + " are held by " + o.Name
			return false
		}
	}
	e.shut = e.shut.Or(&add)
	free := true
	for _, id := range b.ids() {
		o := b.all[id]
		switch {
		case !o.running || o.set.Pinned || !add.Intersects(&o.set.CPUs):
		case b.settling(o):
			free = false
		case !inReply:
			o.doubt, o.since, free = true, time.Time{}, false
		}
	}
	return free
}

// apply makes the next decision the present decision. The move is in doubt until the runtime
// confirms it.
func (b *Books) apply(e *entry) {
	d := e.next
	left, before := e.set.CPUs.AndNot(&d.CPUs), b.shutFor(e.Decision)
	e.Decision, e.next, e.turn, e.slim = d, nil, e.turn+1, false
	if e.carries() != (amounts{}) {
		e.doubt, e.since = true, time.Time{}
	}
	if !e.set.Pinned {
		return // a shared container: only its memory has changed
	}
	e.leaving = e.leaving.AndNot(&d.CPUs)
	if e.leaving = e.leaving.Or(&left); e.leaving.IsEmpty() {
		e.kept = topology.CPUSet{}
	} else {
		e.kept = e.kept.Or(&before)
	}
	e.shut = b.shutNow(e)
	e.set = Set{CPUs: d.CPUs, Mems: memsOf(d), Pinned: true}
	e.doubt, e.since = true, time.Time{}
}

// Update returns the reply to an update of a running container: its CPUs, and the moves of shared
// containers that must come first. The reply also carries out a newer decision. If this is not
// possible yet, held explains why, and nothing changes. The result known is false for a container
// that is not in the books or does not run.
func (b *Books) Update(id string) (set Set, moves []Update, known bool, held error) {
	e := b.all[id]
	if e == nil || !e.running {
		return Set{}, nil, false, nil
	}
	const passes = "another container that is just starting shares the CPUs of this container, or this container is being moved: the kubelet tries again"
	if !e.set.Pinned && (e.unsettled || b.due(e) != e.set) {
		return e.set, nil, true, &HeldError{e.Name, passes} // this reply would keep the container on the CPUs that it is leaving
	}
	if e.next != nil {
		if e.unsettled || !b.claim(e, true) {
			return e.set, nil, true, &HeldError{e.Name, cmp.Or(e.waits, passes)}
		}
		b.apply(e)
		e.since = b.now()
		moves = b.spread(id)
	}
	return e.set, moves, true, nil
}

// Updated records that the runtime has carried out the reply of Update, with the amounts that it
// set.
func (b *Books) Updated(id string, has amounts) {
	e := b.all[id]
	if e == nil || e.unsettled {
		return
	}
	if e.doubt = false; has != (amounts{}) {
		e.asks = has
	}
	if e.carries() != (amounts{}) {
		e.doubt, e.since = true, b.now()
	}
}

// amounts are the CPU shares and the memory limit in bytes that the runtime sets for a container; 0
// means not set.
type amounts struct{ shares, limit uint64 }

func amountsOf(r *api.LinuxResources) amounts {
	return amounts{r.GetCpu().GetShares().GetValue(), uint64(max(0, r.GetMemory().GetLimit().GetValue()))}
}

// decidedAmounts returns the amounts of a decision, with CPU shares as the kubelet computes them
// (pkg/kubelet/cm, MilliCPUToShares).
func decidedAmounts(d *placement.ContainerDecision) amounts {
	const most, least, perCPU = 262144, 2, 1024
	a := wire.DecidedAmounts(d)
	return amounts{uint64(min(max(a.MilliCPU*perCPU/1000, least), most)), a.Bytes}
}

// allows returns an error if the amounts of a running container may not change from now to wants,
// because an amount grows and exceeds the decision. Amounts that do not grow are allowed: the
// kubelet changes memory first, and then sends the earlier CPU shares again. The scheduler does not
// decide on the limits of a pod that is not Guaranteed.
func (b *Books) allows(id string, wants, now amounts) error {
	e := b.all[id]
	if e == nil || e.Decision == nil || !e.decides {
		return nil
	}
	d := e.Decision
	if e.next != nil {
		d = e.next
	}
	decided := decidedAmounts(d)
	for _, a := range [...]struct {
		name                string
		wants, now, decided uint64
	}{{"CPU shares", wants.shares, now.shares, decided.shares}, {"bytes of memory", wants.limit, now.limit, decided.limit}} {
		if a.wants > a.now && a.wants > a.decided {
			return &HeldError{e.Name, fmt.Sprintf("the kubelet sets %d %s, but the decision allows %d: the kubelet tries again until the scheduler has decided about the resize", a.wants, a.name, a.decided)}
		}
	}
	return nil
}

// trim lowers a container's initial amounts to the decided amounts. After a resize, a kubelet may
// restart the container with amounts for which there is no decision yet.
func (c *Container) trim() {
	if !c.decides || c.Decision == nil {
		return
	}
	decided := decidedAmounts(c.Decision)
	c.trimmed = amounts{shares: lower(c.asks.shares, decided.shares), limit: lower(c.asks.limit, decided.limit)}
	c.asks = amounts{min(c.asks.shares, decided.shares), min(c.asks.limit, decided.limit)}
}

// trimmed returns the amounts with which a container starts instead of the kubelet's.
func (b *Books) trimmed(id string) amounts {
	if e := b.all[id]; e != nil {
		return e.Container.trimmed
	}
	return amounts{}
}

// lower returns most if it is less than n, and otherwise 0.
func lower(n, most uint64) uint64 {
	if n > most {
		return most
	}
	return 0
}

// undecided is the reason why a container does not start at the first try. The scheduler may decide
// before the next try. A process that adapts to trimmed limits when it starts would stay too small.
const undecided = "the kubelet has allocated more to it than the scheduler has decided: the kubelet tries again, and the container then starts with the decided amounts"

// carries returns the amounts that a container gets with its next move: the decided amounts if it
// has other amounts. The kubelet sets amounts only once, so a container that started with trimmed
// amounts gets the rest only with such a move.
func (e *entry) carries() (out amounts) {
	if !e.decides || e.Decision == nil || e.next != nil || e.memory == nil {
		return out
	}
	decided := decidedAmounts(e.Decision)
	if e.asks.shares > 0 && e.asks.shares != decided.shares {
		out.shares = decided.shares
	}
	if e.asks.limit > 0 && (e.asks.limit < decided.limit || e.asks.limit > decided.limit && e.slim) {
		out.limit = decided.limit
	}
	return out
}

// carried records amounts that the runtime has set for the container. An amount of 0 means no
// change.
func (e *entry) carried(a amounts) {
	e.asks = amounts{cmp.Or(a.shares, e.asks.shares), cmp.Or(a.limit, e.asks.limit)}
}

// Found is the content of a container's cgroup.
type Found struct {
	Set
	// Turn is Booked.Turn before the reading.
	Turn uint64
	// Limit is the memory limit, or 0 if it is not known. Used is the memory in use.
	Limit, Used uint64
}

// Found records a reading of the container's cgroup. If the cgroup shows that the container has
// left the CPUs that it must leave, they become free. If the limit is as low as decided, the rest
// of the memory becomes free.
func (b *Books) Found(id string, f Found) {
	e := b.all[id]
	if e == nil || !e.running || e.Decision == nil || f.Turn != e.turn {
		return
	}
	decided := e.Decision
	if e.next != nil {
		decided = e.next
	}
	if e.memory != nil && f.Limit > 0 && f.Limit <= bytesOf(decided.Memory) {
		e.memory = decided.Memory
	}
	if e.slim = f.Used > 0 && f.Used < decidedAmounts(decided).limit; !e.doubt && e.carries() != (amounts{}) {
		e.doubt, e.since = true, b.now() // the kubelet may itself still set the amounts
	}
	if e.leaving.IsEmpty() || e.next != nil || !f.CPUs.IsSubsetOf(&e.set.CPUs) {
		return
	}
	e.leaving, e.kept, e.shut = topology.CPUSet{}, topology.CPUSet{}, b.shutFor(e.Decision)
	for _, o := range b.all { // an unsettled container gets its CPUs later
		if o.running && !o.set.Pinned && !b.settling(o) && o.set.CPUs != b.sharedFor(o) {
			o.doubt, o.since = true, time.Time{}
		}
	}
}

// bytesOf returns the amount of ordinary memory in the blocks.
func bytesOf(blocks []placement.MemoryBlock) (bytes uint64) {
	for i := range blocks {
		if blocks[i].Resource == "memory" {
			bytes += blocks[i].Bytes
		}
	}
	return bytes
}

// withLimit returns the blocks with as much ordinary memory as the limit allows, if they have less.
// It adds the difference to the first block of ordinary memory.
func withLimit(blocks []placement.MemoryBlock, limit uint64) []placement.MemoryBlock {
	out := slices.Clone(blocks)
	if i := slices.IndexFunc(out, func(b placement.MemoryBlock) bool { return b.Resource == "memory" }); i >= 0 {
		out[i].Bytes += limit - min(limit, bytesOf(blocks))
	}
	return out
}

// resume restores the progress of resized containers, for Synchronize, from the runtime's data and
// the earlier books.
func (b *Books) resume(before map[string]*entry) {
	for _, id := range b.ids() {
		e := b.all[id]
		if e.Decision == nil || e.lost {
			continue
		}
		resized := b.newest[e.UID].of(e.Short) != nil
		switch old := before[id]; {
		case old != nil && old.memory != nil:
			e.turn, e.memory = old.turn+1, placement.MostMemory(old.memory, e.Decision.Memory)
		case resized || e.decides && e.asks.limit > bytesOf(e.Decision.Memory): // the kubelet may have updated the container while the agent was away
			e.memory = withLimit(e.Decision.Memory, e.asks.limit)
		}
		if !resized || !e.set.Pinned {
			continue
		}
		e.leaving = e.Now.CPUs.AndNot(&e.set.CPUs)
		for _, o := range b.all {
			if o != e && !samePod(&o.Container, &e.Container) {
				e.leaving = e.leaving.AndNot(&o.shut)
			}
		}
		e.leaving = e.leaving.AndNot(&b.reserved)
		e.kept = e.leaving
		e.shut = e.shut.Or(&e.kept)
	}
}

// guaranteed reports whether a cgroup belongs to a pod of the QoS class Guaranteed, according to
// the kubelet's names of cgroups (pkg/kubelet/cm, GetPodContainerName). The limits of such a pod
// equal its requests.
func guaranteed(cgroup string) bool {
	for _, class := range [...]string{"burstable", "besteffort"} {
		if strings.Contains(cgroup, "kubepods-"+class) || strings.Contains(cgroup, "kubepods/"+class) {
			return false
		}
	}
	return cgroup != ""
}
