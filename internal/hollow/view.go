package hollow

import (
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

func viewOf(m *topology.Machine) (*placement.KubeletView, error) {
	v := &placement.KubeletView{NumCores: m.Online.Len(), NumSockets: len(m.Packages)}
	for _, n := range m.NUMANodes {
		vn := placement.ViewNode{ID: n.ID, MemoryBytes: n.MemoryBytes, HugePages: n.HugePages}
		for _, d := range n.Distances {
			vn.Distances = append(vn.Distances, uint64(d))
		}
		for _, c := range m.Cores {
			cpus := c.CPUs.And(&n.CPUs)
			if cpus.IsEmpty() {
				continue
			}
			vc := placement.ViewCore{ID: int(c.ID), Socket: int(c.Package)}
			for id := range cpus.All() {
				vc.Threads = append(vc.Threads, id)
			}
			for _, l := range m.L3s {
				if l.CPUs.Intersects(&cpus) && l.CPUs.Len() != n.CPUs.Len() {
					vc.Uncore = append(vc.Uncore, int(l.ID))
				}
			}
			vn.Cores = append(vn.Cores, vc)
		}
		v.Nodes = append(v.Nodes, vn)
	}
	return v, nil
}
