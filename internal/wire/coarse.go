package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// BoundPod has the facts about a bound pod that show whether a coarse report includes the pod. A
// coarse report is an object of another project's exporter, such as a NodeResourceTopology. It has
// less detail than a NodeTopology: for example, it does not show which pod has which memory.
type BoundPod struct {
	UID string
	PodName
	// Started is the time when the kubelet accepted the pod (status.startTime), by the node's
	// clock, or zero.
	Started time.Time
	// Bound is the time when the pod got its node (PodScheduled), by the API server's clock, or
	// zero if it is unknown.
	Bound time.Time
	// Exclusive means that the kubelet may give the pod exclusive resources.
	Exclusive bool
}

// Beside has the facts about a node that a coarse report does not contain.
type Beside struct {
	// Pods are the pods that are bound to the node and have not ended.
	Pods []BoundPod
	// KubeletVersion is the version that the Node object reports. If it is "", release 1.36 is
	// assumed.
	KubeletVersion string
}

// Others is the UID of an artificial pod. It holds all CPUs, memory and devices that a coarse
// report counts as used without naming their pod.
const Others = "others.berth.dev"

// coarse collects the content of a coarse report and builds a Node from it.
type coarse struct {
	fieldErrors
	version string
	config  placement.Config
	machine topology.Machine
	// free has the CPUs that no container has exclusively.
	free topology.CPUSet
	pods []placement.PodAllocation
	// named has the names of the elements of pods, in the same order. Only Others has no name.
	named  []PodName
	others placement.ContainerAllocation
	pools  []placement.DevicePool
	memory []placement.MemoryTable
}

// node builds the Node. The argument sequence is the number of the report.
func (c *coarse) node(name string, sequence int64, written time.Time) (Node, error) {
	machine := field.NewPath("machine")
	if err := c.machine.Check(); err != nil {
		return Node{}, c.at(machine, "", "a possible machine: "+err.Error())
	}
	view, err := placement.ViewOf(&c.machine)
	if err != nil {
		return Node{}, c.at(machine, "", "a machine that a kubelet can run on: "+err.Error())
	}
	if c.version != "" {
		if c.config.Version, err = ReadKubeletVersion(c.version); err != nil {
			return Node{}, c.at(field.NewPath("kubeletVersion"), c.version, `a release like "v1.36.3"`)
		}
	}
	// A kubelet with a Topology Manager policy does not start if the machine has more NUMA nodes
	// than this option allows. No report contains the option, so it is taken from the machine.
	if nodes := len(c.machine.NUMANodes); nodes > placement.KubeletMaxNodes {
		c.config.TopologyManagerPolicyOptions = map[string]string{"max-allowable-numa-nodes": strconv.Itoa(nodes)}
	}
	c.charge()
	n := Node{Name: name, Spec: NodeSpec{
		Machine: &c.machine, View: view, Config: c.config, Authority: v1alpha1.AuthorityKubelet, KubeletVersion: c.version,
	}}
	n.Report = Report{Sequence: max(1, sequence), Observed: written, Snapshot: placement.Snapshot{
		SharedCPUs: c.free, Memory: c.memory, Devices: c.pools, Pods: c.pods,
	}}
	for i := range c.pods {
		one := ReportedPod{}
		if i < len(c.named) {
			one.Namespace, one.Name = c.named[i].Namespace, c.named[i].Name
		}
		n.Report.Pods = append(n.Report.Pods, one)
	}
	return n, nil
}

// charge assigns resources to Others: CPUs that are neither free nor held by a pod, and the
// collected memory and devices. If the CPU manager's policy is not static, it assigns no CPUs and
// empties free.
func (c *coarse) charge() {
	if c.config.CPUManagerPolicy == "static" {
		rest := c.machine.Online.AndNot(&c.free)
		for _, p := range c.pods {
			for _, held := range p.Containers {
				rest = rest.AndNot(&held.CPUs)
			}
		}
		c.others.CPUs = rest
	} else {
		c.free = topology.CPUSet{}
	}
	if o := &c.others; !o.CPUs.IsEmpty() || len(o.Memory) > 0 || len(o.Devices) > 0 {
		o.Name = "others"
		c.pods = append(c.pods, placement.PodAllocation{UID: Others, Containers: []placement.ContainerAllocation{*o}})
	}
}

// list adds the pods that are not yet in c.pods, without resources. The report does not show which
// resources they use, so the artificial pod Others holds them.
func (c *coarse) list(pods []BoundPod) {
	for _, p := range pods {
		if !slices.ContainsFunc(c.pods, func(o placement.PodAllocation) bool { return o.UID == p.UID }) {
			c.pods = append(c.pods, placement.PodAllocation{UID: p.UID})
			c.named = append(c.named, p.PodName)
		}
	}
}

// boundBy returns the pods that were already bound when the API server stored a report, and pods
// whose time of binding is unknown. A pod that was bound later cannot be in the report, even if its
// start time is earlier because the node's clock is behind. Both compared times are from the API
// server.
func boundBy(pods []BoundPod, written time.Time) (out []BoundPod) {
	for _, p := range pods {
		if !p.Bound.After(written) {
			out = append(out, p)
		}
	}
	return out
}

// startedBy returns the pods that the kubelet had accepted when a report was written. The report
// contains their resources. BoundPod.Started comes from the node's clock, in whole seconds. If the
// exporter does not write a time, the argument written comes from the API server's clock, and the
// caller must select the pods with boundBy first. If the node's clock is ahead of the API server's
// clock in this case, startedBy omits pods that have just started, and they count as in flight.
func startedBy(pods []BoundPod, written time.Time) (out []BoundPod) {
	for _, p := range pods {
		if !p.Started.IsZero() && !p.Started.After(written) {
			out = append(out, p)
		}
	}
	return out
}

// LastWritten returns the time when the API server last accepted a change of the object: the newest
// time in its managed fields. If they have no time, LastWritten returns its second argument.
func LastWritten(o metav1.Object, or time.Time) time.Time {
	return newestEntry(o, or, func(*metav1.FieldsV1) bool { return true })
}

// lastWroteField is like LastWritten, but considers only managers that own a field of the given
// name, because writes of other managers do not change the field. It also considers an entry
// without fields, because the entry's manager may own the field.
func lastWroteField(o metav1.Object, or time.Time, name string) time.Time {
	key := `"f:` + name + `"`
	return newestEntry(o, or, func(f *metav1.FieldsV1) bool { return f == nil || strings.Contains(f.GetRawString(), key) })
}

// newestEntry is like LastWritten, but considers only entries that the filter `counts` accepts.
func newestEntry(o metav1.Object, or time.Time, counts func(*metav1.FieldsV1) bool) time.Time {
	var newest time.Time
	for _, f := range o.GetManagedFields() {
		if f.Time != nil && f.Time.After(newest) && counts(f.FieldsV1) {
			newest = f.Time.Time
		}
	}
	if newest.IsZero() {
		return or
	}
	return newest
}

// policies checks the Topology Manager's policy, and stores it in c.config with a valid scope.
func (c *coarse) policies(at *field.Path, policy, scope string) error {
	if _, ok := placement.ParsePolicy(cmp.Or(policy, "none")); !ok {
		return c.at(at, policy, "none, best-effort, restricted or single-numa-node")
	}
	c.config.TopologyManagerPolicy, c.config.TopologyManagerScope = policy, scope
	return nil
}

// cpuPlace is a CPU with the ids of its NUMA node, package and core as an exporter writes them.
type cpuPlace struct {
	id                 topology.CPUID
	numa, socket, core int64
}

// maxID is the maximum id of a core or a package.
const maxID = 1 << 20

// readCPU adds a CPU to the machine. The argument numa is the name of the report's field with the
// NUMA node; errors mention this field.
func (c *coarse) readCPU(at *field.Path, numa string, p cpuPlace) error {
	switch {
	case p.numa < 0 || p.numa >= topology.MaxNUMANodes:
		return c.at(at.Child(numa), p.numa, "a NUMA node from 0 to "+strconv.Itoa(topology.MaxNUMANodes-1))
	case p.socket < 0 || p.socket > maxID:
		return c.at(at.Child("socket"), p.socket, "an id from 0 to "+strconv.Itoa(maxID))
	case p.core < 0 || p.core > maxID:
		return c.at(at.Child("core"), p.core, "an id from 0 to "+strconv.Itoa(maxID))
	}
	c.addCPU(p.id, topology.NUMAID(p.numa), topology.PackageID(p.socket), topology.CoreID(p.core))
	return nil
}

func (c *coarse) addCPU(id topology.CPUID, numa topology.NUMAID, pkg topology.PackageID, core topology.CoreID) {
	m := &c.machine
	m.Online.Add(id)
	p := slices.IndexFunc(m.Packages, func(p topology.Package) bool { return p.ID == pkg })
	if p < 0 {
		p, m.Packages = len(m.Packages), append(m.Packages, topology.Package{ID: pkg})
	}
	m.Packages[p].CPUs.Add(id)
	k := slices.IndexFunc(m.Cores, func(k topology.Core) bool { return k.Package == pkg && k.ID == core })
	if k < 0 {
		k, m.Cores = len(m.Cores), append(m.Cores, topology.Core{Package: pkg, ID: core})
	}
	m.Cores[k].CPUs.Add(id)
	c.numaNode(numa).CPUs.Add(id)
}

// numaNode returns the machine's NUMA node with the given id, and adds it if necessary.
func (c *coarse) numaNode(id topology.NUMAID) *topology.NUMANode {
	if n := c.machine.NUMANode(id); n != nil {
		return n
	}
	c.machine.NUMANodes = append(c.machine.NUMANodes, topology.NUMANode{ID: id})
	return &c.machine.NUMANodes[len(c.machine.NUMANodes)-1]
}

func (c *coarse) sort() {
	m := &c.machine
	slices.SortFunc(m.Packages, func(a, b topology.Package) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(m.NUMANodes, func(a, b topology.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(m.Cores, func(a, b topology.Core) int {
		la, _ := a.CPUs.Lowest()
		lb, _ := b.CPUs.Lowest()
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(la, lb))
	})
}

// wholeNumber reads an id or a count that is at least 0 and less than limit.
func wholeNumber(text string, limit int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= limit || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("want a number from 0 to %d", limit-1)
	}
	return n, nil
}
