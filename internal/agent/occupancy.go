package agent

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/stranded"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// occupancy has the sums over the resources and pods of a report, for metrics.
type occupancy struct {
	// zones has the amounts of each NUMA node, as in a NodeResourceTopology.
	zones nrt.ZoneList
	// stranded has the amounts that package stranded computes, by resource.
	stranded map[string]int64
	// pods counts pods with exclusive resources, by the spread of the resources.
	pods map[topology.Spread]int
	// withDevices counts pods with devices, by the nearness of the devices.
	withDevices map[placement.Nearness]int
}

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
			continue // the pod no longer runs
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

// strandedIn returns the stranded resources on all NUMA nodes, by resource.
func strandedIn(n *wire.Node) map[string]int64 {
	sum := stranded.Node{Machine: n.Spec.Machine, Snapshot: &n.Report.Snapshot, PinsCPUs: n.Spec.PinsCPUs()}
	if m, err := placement.NewModel(n.Spec.View, n.Spec.Config); err == nil {
		sum.Model = m
	}
	out, wants := map[string]int64{}, stranded.Wants{Shapes: shapesOn(n)}
	for _, numa := range sum.NUMANodes() {
		if numa.Anywhere {
			continue
		}
		for _, a := range numa.Amounts() {
			out[a.Resource] += 0
		}
		for _, p := range numa.Parts(&wants) {
			out[p.Resource] += int64(p.Stranded)
		}
	}
	return out
}

// shapesOn returns the shapes of the pods with devices in the report.
func shapesOn(n *wire.Node) (out []stranded.Shape) {
	for i := range n.Report.Snapshot.Pods {
		s := stranded.Shape{Devices: map[string]uint64{}}
		pod := &n.Report.Snapshot.Pods[i]
		cpus := pod.CPUs()
		s.CPUs = uint64(cpus.Len())
		for b := range pod.Blocks() {
			if b.Resource == stranded.Memory {
				s.Memory += b.Bytes
			}
		}
		for _, c := range pod.Containers {
			for _, d := range c.Devices {
				s.Devices[d.Resource] += uint64(len(d.IDs))
			}
		}
		if len(s.Devices) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func deviceIDs(p *placement.PodAllocation) (ids []string) {
	for _, c := range p.Containers {
		for _, a := range c.Devices {
			ids = append(ids, a.IDs...)
		}
	}
	return ids
}

// unit is the unit of a resource: each unit has a metric with the unit in its name.
type unit int

const (
	unitCPUs unit = iota
	unitBytes
	unitDevices
)

func unitOf(resource string) unit {
	switch {
	case resource == stranded.CPU:
		return unitCPUs
	case stranded.IsBytes(resource):
		return unitBytes
	default:
		return unitDevices
	}
}

// unitDescs has the descriptions of one kind of metric, by unit. All except the description for
// CPUs have the label resource as their last label.
type unitDescs []*prometheus.Desc

// descsOf returns the descriptions of the metrics for all units. Each help text begins with the
// unit.
func descsOf(name, help string, labels ...string) unitDescs {
	withResource := append(slices.Clone(labels), "resource")
	return unitDescs{
		unitCPUs:    prometheus.NewDesc(name+"_cpus", fmt.Sprintf(help, "CPUs"), labels, nil),
		unitBytes:   prometheus.NewDesc(name+"_bytes", fmt.Sprintf(help, "Bytes of memory and huge pages"), withResource, nil),
		unitDevices: prometheus.NewDesc(name+"_devices", fmt.Sprintf(help, "Devices"), withResource, nil),
	}
}

// withDevices replaces the help text of the metric for devices.
func withDevices(all unitDescs, name, help string) unitDescs {
	all[unitDevices] = prometheus.NewDesc(name+"_devices", help, []string{"resource"}, nil)
	return all
}

// occupancyMetrics collects the metrics of the occupancy in the last reliable report. Until there
// is one, it collects nothing.
type occupancyMetrics struct{ last atomic.Pointer[wire.Node] }

var (
	_ prometheus.Collector = (*occupancyMetrics)(nil)

	allocatableDescs = descsOf("berth_agent_numa_allocatable", "%s that pods can get exclusively, by NUMA node.", "numa")
	availableDescs   = descsOf("berth_agent_numa_available", "%s that are free and that pods can get exclusively, by NUMA node.", "numa")
	strandedDescs    = withDevices(descsOf("berth_agent_stranded", "%s that are free, but that pods cannot use because too little of another resource (CPUs or memory) is free on the same NUMA node."), "berth_agent_stranded", "Free devices that would remain if each NUMA node were filled with copies of one of the node's pods with such devices (the pod that leaves the fewest). If no pod has such devices, each copy needs one device, one CPU and 1 byte of memory.")
	nearDesc         = prometheus.NewDesc("berth_agent_device_pods", "Running pods with devices, by the smallest unit that holds the devices: switch (one PCI switch), root (one root complex), numa-node, package, or machine. A pod whose devices, CPUs and memory are on several NUMA nodes counts as package or machine. A pod whose device ids are not PCI addresses never counts as switch or root.", []string{"alignment"}, nil)
	alignedDesc      = prometheus.NewDesc("berth_agent_pinned_pods", "Running pods with exclusive CPUs, memory or devices, by the smallest unit that holds them: numa-node, package or machine.", []string{"alignment"}, nil)
)

// Describe implements prometheus.Collector.
func (m *occupancyMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, all := range []unitDescs{allocatableDescs, availableDescs, strandedDescs, {alignedDesc, nearDesc}} {
		for _, d := range all {
			out <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (m *occupancyMetrics) Collect(out chan<- prometheus.Metric) {
	n := m.last.Load()
	if n == nil {
		return
	}
	o := occupancyOf(n)
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	byUnit := func(all unitDescs, v int64, resource string, labels ...string) {
		unit := unitOf(resource)
		if unit != unitCPUs {
			labels = append(labels, resource)
		}
		gauge(all[unit], v, labels...)
	}
	for _, z := range o.zones {
		numa := strings.TrimPrefix(z.Name, "node-")
		for _, r := range z.Resources {
			byUnit(allocatableDescs, r.Allocatable.Value(), r.Name, numa)
			byUnit(availableDescs, r.Available.Value(), r.Name, numa)
		}
	}
	for resource, v := range o.stranded {
		byUnit(strandedDescs, v, resource)
	}
	for a, n := range o.pods {
		gauge(alignedDesc, int64(n), string(a))
	}
	for a, n := range o.withDevices {
		gauge(nearDesc, int64(n), string(a))
	}
}
