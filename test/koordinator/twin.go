package koordinator

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/topology"
)

// twin finds out whether a pod fits a machine by trying every set of NUMA nodes. It does not use
// the engine. It supports only the pods of newPod: their init containers run before their app
// containers, and their rules about CPUs are preferences and no requirements.
type twin struct {
	m        *topology.Machine
	reserved topology.CPUSet
}

// need is a request that must be together on some NUMA nodes.
type need struct {
	own    uint64 // exclusive CPUs
	shares uint64 // thousandths
	memory uint64 // bytes
}

// room is a NUMA node's free capacity: exclusive CPUs, CPU time, memory.
type room struct{ own, milli, memory uint64 }

// fits reports whether the machine could admit the pod in addition to its pods that have not ended.
func (t twin) fits(there []*corev1.Pod, all obeyed.Decisions, pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		return false
	}
	now, empty := t.rooms(nil), t.rooms(nil)
	for _, other := range there {
		if d := all[string(other.UID)]; d != nil && !wire.Ended(other) {
			now = minus(now, t.rooms(d), empty)
		}
	}
	r := &ask.Request
	var needs []need
	for i := range r.Containers {
		needs = append(needs, needOf(r, &r.Containers[i]))
	}
	if r.Rules.Scope == placement.PodScope && r.Rules.Policy != placement.PolicyNone {
		needs = []need{most(needs)}
	}
	for _, n := range needs {
		if w := leastNodes(now, n); w == 0 || w > t.widest(empty, n, r.Rules.Policy) {
			return false
		}
	}
	return true
}

func needOf(r *placement.Request, c *placement.ContainerRequest) (n need) {
	milli := uint64(c.MilliCPU)
	if r.Rules.Shares != joint.Unset || milli%1000 != 0 || !r.Guaranteed && r.Rules.CPUs == (joint.Rules{}) {
		n.shares = milli
	} else {
		n.own = milli / 1000
	}
	for _, q := range c.Memory {
		n.memory += q.Bytes
	}
	return n
}

// most returns the largest need of containers that run one after another.
func most(all []need) (m need) {
	for _, n := range all {
		m = need{max(m.own, n.own), max(m.shares, n.shares), max(m.memory, n.memory)}
	}
	return m
}

// widest returns the largest number of NUMA nodes that the policy allows for a need.
func (t twin) widest(empty []room, n need, p placement.Policy) int {
	switch p {
	case placement.PolicySingleNUMANode:
		return 1
	case placement.PolicyRestricted:
		return leastNodes(empty, n)
	}
	return len(empty)
}

// leastNodes returns the smallest number of NUMA nodes with room for a need; 0 if there is no room.
func leastNodes(rooms []room, n need) (least int) {
	for set := uint(1); set < 1<<len(rooms); set++ {
		var sum room
		for i, r := range rooms {
			if set&(1<<i) != 0 {
				sum = room{sum.own + min(r.own, r.milli/1000), sum.milli + r.milli, sum.memory + r.memory}
			}
		}
		if width := bits.OnesCount(set); sum.own >= n.own && sum.milli >= 1000*n.own+n.shares && sum.memory >= n.memory && (least == 0 || width < least) {
			least = width
		}
	}
	return least
}

// rooms returns the NUMA nodes' free capacity on a machine with only this decision; nil means an
// empty machine.
func (t twin) rooms(d *placement.Decision) []room {
	out := make([]room, len(t.m.NUMANodes))
	var shut topology.CPUSet
	turns := map[topology.NUMAID]map[bool]room{} // used resources, in init containers and in others
	if d != nil {
		for i := range d.Containers {
			c := &d.Containers[i]
			alone := obeyed.AloneFor(t.m, c)
			shut = shut.Or(&alone)
			t.use(turns, c)
		}
	}
	for i := range out {
		n := &t.m.NUMANodes[i]
		cpus := n.CPUs.AndNot(&t.reserved).AndNot(&shut)
		used := most([]need{asNeed(turns[n.ID][true]), asNeed(turns[n.ID][false])})
		out[i] = room{uint64(cpus.Len()), 1000*uint64(cpus.Len()) - used.shares, n.MemoryBytes - used.memory}
	}
	return out
}

func asNeed(r room) need { return need{shares: r.milli, memory: r.memory} }

func (t twin) use(turns map[topology.NUMAID]map[bool]room, c *placement.ContainerDecision) {
	add := func(id topology.NUMAID, milli, memory uint64) {
		if turns[id] == nil {
			turns[id] = map[bool]room{}
		}
		r := turns[id][c.Kind == placement.Init]
		turns[id][c.Kind == placement.Init] = room{milli: r.milli + milli, memory: r.memory + memory}
	}
	for _, s := range c.Shares {
		add(s.NUMA, uint64(s.MilliCPU), 0)
	}
	for _, b := range c.Memory {
		for id := range b.NUMA.All() { // one
			add(id, 0, b.Bytes)
		}
	}
}

// minus subtracts a pod's resources, which are the difference of empty and with, from the rooms
// now.
func minus(now, with, empty []room) []room {
	for i := range now {
		now[i].own -= empty[i].own - with[i].own
		now[i].milli -= empty[i].milli - with[i].milli
		now[i].memory -= empty[i].memory - with[i].memory
	}
	return now
}
