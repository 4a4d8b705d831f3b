package cpuoracle

import (
	"math/rand/v2"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/lib/model"
	genuine "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"

	"github.com/berth-dev/berth/placement/cpu"
	"github.com/berth-dev/berth/topology"
)

// plan describes a random machine.
type plan struct {
	sockets, nodesPerSocket, cores, threads int
	siblingsApart                           bool    // thread i of core c is CPU c + i*cores, otherwise c*threads + i
	offline                                 float64 // share of threads that are switched off
	coresPerUncore                          int     // 0: none is reported
	numaGap                                 int     // distance between NUMA ids
	socketsPerNode                          int     // above 1: NUMA nodes span sockets
}

func randomPlan(r *rand.Rand) plan {
	p := plan{
		sockets: 1 + r.IntN(4), nodesPerSocket: 1 + r.IntN(4), cores: 1 + r.IntN(6), threads: 1 + r.IntN(2),
		siblingsApart: r.IntN(2) == 0, numaGap: 1, socketsPerNode: 1,
	}
	if r.IntN(12) == 0 {
		p.threads = 4
	}
	if r.IntN(3) == 0 {
		p.sockets, p.nodesPerSocket, p.cores = 1+r.IntN(2), 3+r.IntN(2), 2+r.IntN(5)
		p.nodesPerSocket *= 1 + r.IntN(3-p.sockets)
	}
	for p.sockets*p.nodesPerSocket > 8 {
		p.sockets--
	}
	if r.IntN(5) == 0 {
		p.offline = []float64{0.02, 0.1, 0.3}[r.IntN(3)]
	}
	if r.IntN(3) > 0 {
		p.coresPerUncore = 1 + r.IntN(p.cores+p.cores/2+1)
	}
	if r.IntN(6) == 0 {
		p.numaGap = 1 + r.IntN(3)
	}
	if p.nodesPerSocket == 1 && r.IntN(4) == 0 {
		p.socketsPerNode = 1 + r.IntN(2)
	}
	return p
}

// build makes the machine, with NUMA nodes ascending and cores in the order of their lowest thread.
func (p plan) build(r *rand.Rand) *cadvisor.MachineInfo {
	nodes, total := p.sockets*p.nodesPerSocket, p.sockets*p.nodesPerSocket*p.cores
	info := &cadvisor.MachineInfo{NumSockets: p.sockets}
	numa := map[int]*cadvisor.Node{}
	for c := range total {
		core := cadvisor.Core{Id: c, SocketID: c / p.cores * p.sockets / nodes}
		for i := range p.threads {
			id := c*p.threads + i
			if p.siblingsApart {
				id = c + i*total
			}
			if r.Float64() >= p.offline || c+i == 0 {
				core.Threads = append(core.Threads, id)
			}
		}
		if len(core.Threads) == 0 {
			continue
		}
		if p.coresPerUncore > 0 {
			core.UncoreCaches = []cadvisor.Cache{{Id: c / p.coresPerUncore, Level: 3}}
		}
		info.NumCores += len(core.Threads)
		id := c / p.cores / p.socketsPerNode * p.numaGap
		if numa[id] == nil {
			numa[id] = &cadvisor.Node{Id: id}
		}
		numa[id].Cores = append(numa[id].Cores, core)
	}
	for id := range nodes * p.numaGap {
		if n := numa[id]; n != nil {
			info.Topology = append(info.Topology, *n)
		}
	}
	return info
}

// randomTopology returns the kubelet's topology of a random machine, or sometimes an impossible
// topology with CPUs at random places.
func randomTopology(r *rand.Rand) (*genuine.CPUTopology, error) {
	if r.IntN(12) == 0 {
		return nonsense(r), nil
	}
	return genuine.Discover(logr.Discard(), randomPlan(r).build(r))
}

func nonsense(r *rand.Rand) *genuine.CPUTopology {
	total := 1 + r.IntN(40)
	t := &genuine.CPUTopology{NumCPUs: total, NumCores: 1 + r.IntN(total), NumSockets: 1 + r.IntN(4), CPUDetails: genuine.CPUDetails{}}
	a, b, c, d := 1+r.IntN(6), 1+r.IntN(4), 1+r.IntN(total), 1+r.IntN(6)
	for i := range total {
		t.CPUDetails[3*i] = genuine.CPUInfo{NUMANodeID: r.IntN(a), SocketID: r.IntN(b), CoreID: r.IntN(c), UncoreCacheID: r.IntN(d)}
	}
	t.NumNUMANodes, t.NumUncoreCache = t.CPUDetails.NUMANodes().Size(), t.CPUDetails.UncoreCaches().Size()
	return t
}

// nodeOf converts a topology to the engine's type.
func nodeOf(t *genuine.CPUTopology) cpu.Node {
	n := cpu.Node{NumCPUs: t.NumCPUs, NumCores: t.NumCores, NumSockets: t.NumSockets}
	for id, info := range t.CPUDetails {
		n.Threads = append(n.Threads, cpu.Thread{
			CPU: topology.CPUID(id), NUMA: topology.NUMAID(info.NUMANodeID),
			Socket: info.SocketID, Core: info.CoreID, Uncore: info.UncoreCacheID,
		})
	}
	return n
}
