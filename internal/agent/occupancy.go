package agent

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// occupancy is what a report says in sums.
type occupancy struct {
	// zones as NodeResourceTopology has them, by resource.
	zones nrt.ZoneList
	// stranded is what package stranded says, by resource.
	stranded map[string]int64
	// pods that hold something, by how far apart it lies.
	pods map[topology.Spread]int
	// withDevices counts the pods of these that have devices, by how near to each other all lies.
	withDevices map[placement.Nearness]int
}

// occupancyOf is a pure function of a node.
func occupancyOf(n *wire.Node) *occupancy {
	o := &occupancy{
		zones:       wire.WriteNodeResourceTopology(n, nil).Zones,
		stranded:    strandedIn(n),
		pods:        map[topology.Spread]int{topology.WithinNode: 0, topology.WithinPackage: 0, topology.WithinMachine: 0},
		withDevices: map[placement.Nearness]int{},
	}
	for _, n := range placement.Nearnesses {
		o.withDevices[n] = 0
	}
	deviceAt := func(resource, id string) topology.NUMASet {
		return placement.DeviceAt(n.Report.Snapshot.Devices, resource, id)
	}
	for i, p := range n.Report.Snapshot.Pods {
		if i < len(n.Report.Pods) && n.Report.Pods[i].State != "" {
			continue // no longer runs
		}
		held := p.NUMANodes(n.Spec.Machine, deviceAt)
		if held != 0 {
			o.pods[n.Spec.Machine.Spread(held)]++
		}
		if ids := deviceIDs(&p); len(ids) > 0 {
			o.withDevices[placement.NearnessOf(n.Spec.Machine, ids, held)]++
		}
	}
	return o
}

// strandedIn is what is stranded on all NUMA nodes, by resource.
func strandedIn(n *wire.Node) map[string]int64 {
	sum := stranded.Node{Machine: n.Spec.Machine, Snapshot: &n.Report.Snapshot, PinsCPUs: n.Spec.PinsCPUs()}
	if n.Spec.View != nil {
		if m, err := placement.NewModel(n.Spec.View, n.Spec.Config); err == nil {
			sum.Model = m
		}
	}
	out := map[string]int64{}
	for _, numa := range sum.NUMANodes() {
		if numa.Anywhere {
			continue
		}
		for _, a := range numa.Amounts() {
			out[a.Resource] += 0
		}
		for _, p := range numa.Parts() {
			out[p.Resource] += int64(p.Stranded)
		}
	}
	return out
}

// deviceIDs returns those of all devices that a pod has.
func deviceIDs(p *placement.PodAllocation) (ids []string) {
	for _, c := range p.Containers {
		for _, a := range c.Devices {
			ids = append(ids, a.IDs...)
		}
	}
	return ids
}

// occupancyMetrics shows the last occupancy that was set; nothing before.
type occupancyMetrics struct{ last atomic.Pointer[occupancy] }

var (
	_ prometheus.Collector = (*occupancyMetrics)(nil)

	allocatableDesc = prometheus.NewDesc("berth_agent_numa_allocatable", "What a NUMA node has for pods to have to themselves, in CPUs, bytes or devices.", []string{"numa", "resource"}, nil)
	availableDesc   = prometheus.NewDesc("berth_agent_numa_available", "What of that nobody has, in CPUs, bytes or devices.", []string{"numa", "resource"}, nil)
	strandedDesc    = prometheus.NewDesc("berth_agent_stranded", "What nobody has and has too few free CPUs, or too little free memory, beside it on its NUMA node, in CPUs, bytes or devices.", []string{"resource"}, nil)
	nearDesc        = prometheus.NewDesc("berth_agent_device_pods", "Running pods that have devices, by whether these lie below one PCI switch, at one root complex, with all else that the pod has on one NUMA node, in one package, or across the machine.", []string{"alignment"}, nil)
	alignedDesc     = prometheus.NewDesc("berth_agent_pinned_pods", "Running pods that have CPUs, memory or devices to themselves, by whether these lie on one NUMA node, in one package, or across the machine.", []string{"alignment"}, nil)
)

// Describe implements prometheus.Collector.
func (m *occupancyMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocatableDesc, availableDesc, strandedDesc, alignedDesc, nearDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *occupancyMetrics) Collect(out chan<- prometheus.Metric) {
	o := m.last.Load()
	if o == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for _, z := range o.zones {
		numa := strings.TrimPrefix(z.Name, "node-")
		for _, r := range z.Resources {
			gauge(allocatableDesc, r.Allocatable.Value(), numa, r.Name)
			gauge(availableDesc, r.Available.Value(), numa, r.Name)
		}
	}
	for resource, v := range o.stranded {
		gauge(strandedDesc, v, resource)
	}
	for a, n := range o.pods {
		gauge(alignedDesc, int64(n), string(a))
	}
	for a, n := range o.withDevices {
		gauge(nearDesc, int64(n), string(a))
	}
}
