package rank

import (
	"slices"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Bound returns a rank that is at least as good as the node's rank for the pod, without asking the
// node's ledger. It returns false if the node has too few free CPUs for the pod's exclusive CPUs.
//
// Bound assumes the smallest number of NUMA nodes that have enough free CPUs together. If this
// number is 1 and narrowFirst returns true, Bound takes the fit of the best single NUMA node.
// Otherwise it takes the highest possible fit.
func (s *Scoring) Bound(on *ledger.Outline, r *placement.Request) (Rank, bool) {
	if s.Formula == Volcano {
		return Rank{Score: 1}, true
	}
	own := int32(on.Model.ExclusiveCPUs(r))
	narrowest := narrowest(on.Rooms, own)
	if narrowest > len(on.Rooms) {
		return Rank{Tier: LastTier}, false
	}
	o, fit := Offer{Certain: !on.Amounts}, int64(MaxScore)
	o.Reach, o.Strictness = topology.NUMASet(1<<narrowest-1), on.Model.Strictness(r)
	if narrowest == 1 && s.narrowFirst() {
		fit = s.bestRoom(on.Rooms, own, int64(r.CPUs()))
	}
	return Rank{s.tier(&o), s.weigh(o.Certain, fit, MaxScore)}, true
}

// bestRoom returns the best fit of a pod on one NUMA node that has at least own free CPUs. The
// argument `asked` is the number of CPUs that the pod requests. At least one such NUMA node must
// exist.
func (s *Scoring) bestRoom(rooms []ledger.Room, own int32, asked int64) int64 {
	left, all := int64(-1), int64(1)
	var nodeFree, nodeAll int64
	for i := range rooms {
		room := &rooms[i]
		nodeFree, nodeAll = nodeFree+int64(room.Free), nodeAll+int64(room.All)
		if room.Free < own {
			continue
		}
		l, a := max(0, int64(room.Free)-asked), int64(room.All)
		if left < 0 || l*all != left*a && (l*all < left*a) == (s.Strategy == MostAllocated) {
			left, all = l, a
		}
	}
	return meanFit(s.fill(left, all, 0), s.fill(nodeFree, nodeAll, asked))
}

// narrowest returns the smallest number of NUMA nodes that together have the given number of free
// CPUs; 0 if cpus is 0. If all NUMA nodes together have too few, it returns more than their number.
func narrowest(rooms []ledger.Room, cpus int32) int {
	if cpus > 0 && slices.ContainsFunc(rooms, func(r ledger.Room) bool { return r.Free >= cpus }) {
		return 1
	}
	if len(rooms) > topology.MaxNUMANodes {
		return 0
	}
	return fewest(rooms, cpus)
}

func fewest(rooms []ledger.Room, cpus int32) int {
	var free [topology.MaxNUMANodes]int32
	for i := range rooms {
		free[i] = rooms[i].Free
	}
	all := free[:len(rooms)]
	slices.Sort(all)
	for nodes := 0; ; nodes++ {
		if cpus <= 0 || nodes == len(all) {
			return nodes + int(min(1, max(0, cpus)))
		}
		cpus -= all[len(all)-1-nodes]
	}
}

// narrowFirst reports whether NUMANodes is one of the criteria and does not come after Devices.
func (s *Scoring) narrowFirst() bool {
	at := slices.Index(s.First, NUMANodes)
	return at >= 0 && !slices.Contains(s.First[:at], Devices)
}
