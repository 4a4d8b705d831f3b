package gen

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

func (d dice) config(m *cases.Machine) cases.Config {
	c := cases.Config{
		CPUManagerPolicy:      []string{"static", "none", ""}[d.weighted(88, 9, 3)],
		MemoryManagerPolicy:   []string{"Static", "None", ""}[d.weighted(65, 31, 4)],
		TopologyManagerPolicy: []string{"none", "best-effort", "restricted", "single-numa-node", ""}[d.weighted(10, 28, 32, 28, 2)],
		TopologyManagerScope:  []string{"container", "pod", ""}[d.weighted(52, 45, 3)],
	}
	if c.CPUManagerPolicy == "static" {
		c.CPUManagerPolicyOptions = d.cpuOptions(&c)
	}
	d.reserve(&c, m)
	if c.MemoryManagerPolicy == "Static" {
		c.ReservedMemory = d.reservedMemory(m)
	}
	c.TopologyManagerPolicyOptions = d.topologyOptions(m)
	if d.chance(2) {
		d.spoil(&c)
	}
	if d.chance(1) {
		gate := pick(d, "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions", "TopologyManagerPolicyBetaOptions")
		c.FeatureGates = map[string]bool{gate: d.chance(30)}
	} else if d.chance(2) {
		c.FeatureGates = pick(d, map[string]bool{PodLevelGate: false, "InPlacePodLevelResourcesVerticalScaling": false,
			"PodLevelResourcesFixDefaulting": false, QOSGate: false}, map[string]bool{ClaimsGate: false}, map[string]bool{QOSGate: d.chance(30)})
	} else if d.chance(12) {
		c.FeatureGates = map[string]bool{ManagersGate: true}
	}
	return c
}

// Gates that are switched off or on for kubelets of some cases: see podMaker.rarities.
const (
	ManagersGate = "PodLevelResourceManagers"
	PodLevelGate = "PodLevelResources"
	QOSGate      = "PodLevelResourcesFixKubeletQOSClass"
	ClaimsGate   = "DRAExtendedResource"
)

const (
	fullPCPUs       = "full-pcpus-only"
	distributeNUMA  = "distribute-cpus-across-numa"
	distributeCores = "distribute-cpus-across-cores"
	alignSocket     = "align-by-socket"
	strict          = "strict-cpu-reservation"
	uncore          = "prefer-align-cpus-by-uncorecache"
)

// cpuOptions returns options that are compatible with each other, except for one set in thirty.
func (d dice) cpuOptions(c *cases.Config) map[string]string {
	o := map[string]string{}
	set := func(percent float64, name string) {
		if d.chance(percent) {
			o[name] = "true"
		} else if d.chance(2) {
			o[name] = pick(d, "false", "false", "0")
		}
	}
	set(38, fullPCPUs)
	set(22, strict)
	set(26, uncore)
	set(26, distributeNUMA)
	set(12, distributeCores)
	set(9, alignSocket)
	if d.chance(3) {
		return o
	}
	if o[distributeCores] == "true" {
		delete(o, fullPCPUs)
		delete(o, distributeNUMA)
		delete(o, uncore)
	}
	if o[distributeNUMA] == "true" {
		delete(o, uncore)
	}
	if c.TopologyManagerPolicy == "single-numa-node" {
		delete(o, alignSocket)
	}
	return o
}

// reserve sets aside CPUs by list or by amount.
func (d dice) reserve(c *cases.Config, m *cases.Machine) {
	cpus := cpusOf(m)
	if len(cpus) > 0 && d.chance(50) {
		n := min(len(cpus), pick(d, 1, 1, 1, 2, 2, 3, 4))
		var list []string
		for _, id := range some(d, cpus, n) {
			list = append(list, fmt.Sprint(id))
		}
		c.ReservedSystemCPUs = strings.Join(list, ",")
		if d.chance(10) { // as a range, and one of them twice
			first := cpus[d.IntN(len(cpus))]
			c.ReservedSystemCPUs += fmt.Sprintf(",%s,%d-%d", list[0], first, first+topology.CPUID(d.between(0, 2)))
		}
		if d.chance(5) {
			c.ReservedCPU = quantity("3")
		}
		return
	}
	c.ReservedCPU = quantity(pick(d, "1", "1", "1", "2", "2", "1000m", "500m", "1500m", "2100m", "3", "4"))
	if d.chance(2) {
		c.ReservedCPU = quantity(fmt.Sprint(len(cpus)))
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// cpusOf lists the CPUs of a machine in ascending order.
func cpusOf(m *cases.Machine) []topology.CPUID {
	var out []topology.CPUID
	for i := range m.Nodes {
		for _, c := range m.Nodes[i].Cores {
			out = append(out, c.Threads...)
		}
	}
	slices.Sort(out)
	return out
}

func (d dice) reservedMemory(m *cases.Machine) []cases.ReservedMemory {
	var out []cases.ReservedMemory
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if i > 0 && d.chance(35) {
			continue
		}
		limits := corev1.ResourceList{corev1.ResourceMemory: *quantity(fmt.Sprintf("%dMi", d.between(1, 2000)))}
		for _, h := range n.HugePages {
			if h.Count > 0 && d.chance(15) {
				pages := uint64(d.between(1, int(min(h.Count, 8))))
				limits[hugePageName(h.SizeKB)] = *resource.NewQuantity(int64(pages*h.SizeKB<<10), resource.BinarySI)
			}
		}
		out = append(out, cases.ReservedMemory{NUMANode: n.ID, Limits: limits})
	}
	return out
}

// hugePageName returns the kubelet's name of the resource: "hugepages-2Mi".
func hugePageName(kb uint64) corev1.ResourceName {
	return corev1.ResourceName("hugepages-" + resource.NewQuantity(int64(kb<<10), resource.BinarySI).String())
}

// topologyOptions rarely returns the option to prefer close nodes if node ids have gaps, because
// the kubelet then crashes.
func (d dice) topologyOptions(m *cases.Machine) map[string]string {
	o := map[string]string{}
	gaps := int(m.Nodes[len(m.Nodes)-1].ID) >= len(m.Nodes)
	if d.chance(22) && (!gaps || d.chance(3)) {
		o["prefer-closest-numa-nodes"] = pick(d, "true", "true", "true", "false")
	}
	if d.chance(8) || len(m.Nodes) > 8 && d.chance(80) {
		o["max-allowable-numa-nodes"] = fmt.Sprint(d.between(8, 16))
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

// spoil changes a configuration so that, in most cases, a kubelet does not start with it.
func (d dice) spoil(c *cases.Config) {
	option := func(name, value string) {
		if c.CPUManagerPolicyOptions == nil {
			c.CPUManagerPolicyOptions = map[string]string{}
		}
		c.CPUManagerPolicyOptions[name] = value
	}
	switch d.IntN(14) {
	case 0:
		c.ReservedSystemCPUs = "900-901"
	case 1:
		c.ReservedMemory = append(c.ReservedMemory, cases.ReservedMemory{NUMANode: 77, Limits: corev1.ResourceList{"memory": *quantity("1Gi")}})
	case 2:
		c.TopologyManagerPolicy = "strictest"
	case 3:
		option(fullPCPUs, "maybe")
	case 4:
		option("no-such-option", "true")
	case 5:
		c.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-nodes": pick(d, "7", "-1", "many", "0")}
	case 6:
		c.TopologyManagerScope = "node"
	case 7:
		c.CPUManagerPolicy = "dynamic"
	case 8:
		c.ReservedSystemCPUs, c.ReservedCPU = "", quantity("0")
	case 9:
		c.ReservedMemory = nil
	case 10:
		c.MemoryManagerPolicy = pick(d, "static", "BestEffort")
	case 11:
		c.ReservedSystemCPUs, c.ReservedCPU = "", quantity("100000")
	case 12:
		c.TopologyManagerPolicyOptions = map[string]string{"prefer-closest-numa-nodes": "perhaps"}
	case 13:
		c.ReservedSystemCPUs = pick(d, "1-", "a", "3-1", "0,,1", "-1")
	}
}
