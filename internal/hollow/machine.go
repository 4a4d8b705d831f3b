package hollow

import (
	"cmp"
	"context"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// MachineInfo returns cAdvisor's description of the machine in the view.
func MachineInfo(view *placement.KubeletView) *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: view.NumCores, NumSockets: view.NumSockets}
	pages := map[uint64]uint64{}
	for i := range view.Nodes {
		n := &view.Nodes[i]
		info.MemoryCapacity += n.MemoryBytes
		info.NumPhysicalCores += len(n.Cores)
		info.Topology = append(info.Topology, cadvisorNode(n))
		for _, h := range n.HugePages {
			pages[h.PageBytes] += h.Count
		}
	}
	for size, count := range pages {
		info.HugePages = append(info.HugePages, hugePages(topology.HugePages{PageBytes: size, Count: count}))
	}
	slices.SortFunc(info.HugePages, func(a, b cadvisorapi.HugePagesInfo) int { return cmp.Compare(a.PageSize, b.PageSize) })
	return info
}

func cadvisorNode(n *placement.ViewNode) cadvisorapi.Node {
	node := cadvisorapi.Node{Id: int(n.ID), Memory: n.MemoryBytes, Distances: slices.Clone(n.Distances)}
	for _, h := range n.HugePages {
		node.HugePages = append(node.HugePages, hugePages(h))
	}
	for i := range n.Cores {
		c := &n.Cores[i]
		core := cadvisorapi.Core{Id: c.ID, SocketID: c.Socket}
		for _, t := range c.Threads {
			core.Threads = append(core.Threads, int(t))
		}
		for _, id := range c.Uncore {
			core.UncoreCaches = append(core.UncoreCaches, cadvisorapi.Cache{Id: id, Level: 3, Type: "Unified"})
		}
		node.Cores = append(node.Cores, core)
	}
	return node
}

// hugePages converts a pool of huge pages. cAdvisor's page sizes are in KiB.
func hugePages(h topology.HugePages) cadvisorapi.HugePagesInfo {
	return cadvisorapi.HugePagesInfo{PageSize: h.PageBytes / 1024, NumPages: h.Count}
}

// fsBytes is the size in bytes that the node reports for each file system. A node whose capacity
// has no ephemeral storage does not become Ready.
const fsBytes = 1 << 40

// cadvisor replaces cAdvisor. It reports the machine of the Spec and no measurements.
type cadvisor struct {
	cadvisortest.Fake
	info *cadvisorapi.MachineInfo
}

func (c *cadvisor) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) { return c.info, nil }

func (c *cadvisor) RootFsInfo() (cadvisorapi.FsInfo, error) { return disk(), nil }

func (c *cadvisor) ImagesFsInfo(context.Context) (cadvisorapi.FsInfo, error) { return disk(), nil }

func (c *cadvisor) ContainerFsInfo(context.Context) (cadvisorapi.FsInfo, error) { return disk(), nil }

func (c *cadvisor) GetDirFsInfo(string) (cadvisorapi.FsInfo, error) { return disk(), nil }

func disk() cadvisorapi.FsInfo {
	inodes := uint64(1 << 30)
	return cadvisorapi.FsInfo{Device: "none", Mountpoint: "/", Capacity: fsBytes, Available: fsBytes, Inodes: &inodes, InodesFree: &inodes}
}
