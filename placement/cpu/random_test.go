package cpu

import (
	"math/rand/v2"

	"github.com/berth-dev/berth/placement/release"
	"github.com/berth-dev/berth/topology"
)

// randomNode returns a random machine: mostly a realistic one, sometimes one with offline CPUs, and
// sometimes an impossible one.
func randomNode(r *rand.Rand) Node {
	if r.IntN(6) == 0 {
		return nonsense(r)
	}
	sockets, perSocket := 1+r.IntN(4), 1+r.IntN(3)
	if r.IntN(6) == 0 {
		sockets, perSocket = 1, 1+r.IntN(8)
	}
	nodes, shared := sockets*perSocket, 1
	if sockets > 1 && r.IntN(6) == 0 {
		// Several sockets per NUMA node.
		nodes, shared = sockets, 1+r.IntN(sockets)
	}
	cores, smt := 1+r.IntN(5), 1+r.IntN(2)
	if r.IntN(10) == 0 {
		smt = 4
	}
	total, siblings, gap := nodes*cores*smt, r.IntN(2) == 0, 1+r.IntN(8)/7*2
	perUncore, numaGap := 1+r.IntN(cores+2), 1+r.IntN(5)/4
	n := Node{NumCores: nodes * cores, NumSockets: sockets}
	for i := range total {
		core, cpu := i/smt, i
		if siblings {
			cpu = i/smt + i%smt*(total/smt)
		}
		first := core * smt
		if siblings {
			first = core
		}
		node := core / cores
		n.Threads = append(n.Threads, Thread{
			CPU: topology.CPUID(cpu * gap), NUMA: topology.NUMAID(node / shared * numaGap),
			Socket: node * sockets / nodes, Core: first * gap, Uncore: core / perUncore,
		})
	}
	switch r.IntN(6) {
	case 0:
		n = offline(r, n)
	case 1:
		n.NumSockets = 1 + r.IntN(sockets+2)
	case 2:
		for i := range n.Threads {
			n.Threads[i].Uncore = n.Threads[i].Socket
		}
	}
	n.NumCPUs = len(n.Threads)
	r.Shuffle(len(n.Threads), func(i, j int) { n.Threads[i], n.Threads[j] = n.Threads[j], n.Threads[i] })
	return n
}

// offline removes threads, and numbers and counts the remaining cores again.
func offline(r *rand.Rand, n Node) Node {
	kept := n.Threads[:1]
	for _, th := range n.Threads[1:] {
		if r.IntN(4) > 0 {
			kept = append(kept, th)
		}
	}
	lowest := map[int]int{}
	for _, th := range kept {
		if low, ok := lowest[th.Core]; !ok || int(th.CPU) < low {
			lowest[th.Core] = int(th.CPU)
		}
	}
	for i := range kept {
		kept[i].Core = lowest[kept[i].Core]
	}
	n.Threads, n.NumCores = kept, len(lowest)
	return n
}

// nonsense puts every CPU at a random place: cores span NUMA nodes, NUMA nodes span sockets, and
// counts are wrong.
func nonsense(r *rand.Rand) Node {
	total := 1 + r.IntN(40)
	n := Node{NumCPUs: total + r.IntN(3), NumSockets: 1 + r.IntN(5)}
	n.NumCores = 1 + r.IntN(total)
	pairs := r.IntN(2) == 0
	if pairs {
		n.NumCores, n.NumCPUs = (total+1)/2, total
	}
	a, b, c, d := 1+r.IntN(6), 1+r.IntN(4), 1+r.IntN(total), 1+r.IntN(6)
	for i := range total {
		n.Threads = append(n.Threads, Thread{
			CPU: topology.CPUID(i * 3), NUMA: topology.NUMAID(r.IntN(a)), Socket: r.IntN(b) - 1, Core: r.IntN(c), Uncore: r.IntN(d),
		})
		if pairs {
			n.Threads[i].Core = i / 2
		}
	}
	return n
}

// wideNode returns a machine with many NUMA nodes, on which the distribution over NUMA nodes has
// many choices.
func wideNode(r *rand.Rand) Node {
	sockets := 1 + r.IntN(2)
	nodes := sockets * (6/sockets + r.IntN(3))
	cores, smt := 2+r.IntN(4), 1+r.IntN(2)
	n := Node{NumCores: nodes * cores, NumSockets: sockets, NumCPUs: nodes * cores * smt}
	for i := range n.NumCPUs {
		node := i / smt / cores
		n.Threads = append(n.Threads, Thread{
			CPU: topology.CPUID(i), NUMA: topology.NUMAID(node), Socket: node * sockets / nodes, Core: i / smt * smt,
		})
	}
	return n
}

// randomOptions returns a random combination that the kubelet accepts.
func randomOptions(r *rand.Rand) Options {
	o := Options{Version: release.V133 + release.Version(r.IntN(5)), AlignBySocket: r.IntN(4) == 0, StrictReservation: r.IntN(4) == 0}
	switch r.IntN(8) {
	case 0:
		o.DistributeAcrossCores = true
	case 1, 2:
		o.DistributeAcrossNUMA = true
	case 3, 4:
		o.PreferAlignByUncore = true
	}
	if !o.DistributeAcrossCores {
		o.FullPhysicalCPUsOnly = r.IntN(3) == 0
	}
	return o
}

// randomSubset keeps CPUs or whole cores, each with the same random probability.
func randomSubset(r *rand.Rand, n Node) topology.CPUSet {
	var set topology.CPUSet
	odds, cores := []float64{1, 0.95, 0.7, 0.5, 0.2}[r.IntN(5)], r.IntN(2) == 0
	drawn := map[int]bool{}
	for _, th := range n.Threads {
		if _, ok := drawn[th.Core]; !ok || !cores {
			drawn[th.Core] = r.Float64() < odds
		}
		if drawn[th.Core] {
			set.Add(th.CPU)
		}
	}
	return set
}

func plain(set topology.CPUSet) ints {
	out := ints{}
	for id := range set.All() {
		out[int(id)] = true
	}
	return out
}

func packed(set ints) topology.CPUSet {
	var out topology.CPUSet
	for id := range set {
		out.Add(topology.CPUID(id))
	}
	return out
}
