package wire

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// nrtFingerprintMethod is the attribute that shows which pods the fingerprint includes: all pods,
// or only pods with exclusive resources.
const (
	nrtFingerprintMethod = "nodeTopologyPodsFingerprintMethod"
	withExclusive        = "with-exclusive-resources"
)

// ReadNodeResourceTopology makes a Node from the zones of an exporter (Node Feature Discovery,
// resource-topology-exporter, koordlet, nri-plugins). The amounts come from the object. The ids of
// CPUs and devices are invented, except the ids of CPUs that koordlet wrote. The error names the
// wrong field.
//
//   - A zone of type Node with the name "node-N" is a NUMA node. Other zones are ignored.
//   - If no zone has cpu, nothing is known about CPUs, and no pod is refused because of CPUs. If
//     some zones have cpu, a zone without it is a NUMA node without CPUs. If a zone has no memory,
//     nothing is known about memory.
//   - The zones of koordlet do not contain used amounts. If koordlet wrote the object, its
//     annotations list the CPUs and the free CPUs, and memory counts only if some zone has less
//     memory available than allocatable.
//   - A fingerprint shows which pods the object includes. Without a fingerprint that matches, the
//     object includes a pod in two cases: the kubelet had admitted the pod when the zones were
//     written, or koordlet lists the pod with CPUs.
func ReadNodeResourceTopology(o *nrt.NodeResourceTopology, b *Beside) (Node, error) {
	r := zoneReader{coarse: coarse{fieldErrors: fieldErrors("NodeResourceTopology " + o.Name), version: b.KubeletVersion}}
	if o.Malformed != "" {
		return Node{}, r.malformed(o.Malformed)
	}
	if err := r.policiesOf(o); err != nil {
		return Node{}, err
	}
	k, err := r.readKoordlet(o)
	if err != nil {
		return Node{}, err
	}
	zones, err := r.zones(o.Zones, k != nil)
	if err != nil {
		return Node{}, err
	}
	takeCPUs, takeMemory := r.takeCPUs, r.takeMemory
	if k != nil {
		takeCPUs = func(zones []zone) error { return r.koordletCPUs(k, zones) }
		if !usesMemory(zones) {
			takeMemory = func([]zone) error { return nil }
		}
	}
	for _, take := range []func([]zone) error{takeCPUs, takeMemory, r.takeDevices} {
		if err := take(zones); err != nil {
			return Node{}, err
		}
	}
	r.distances(zones)
	telling := "zones" // the field that shows which pods the object counts
	if k != nil && k.pods != nil {
		telling = koordletPods
	}
	written := lastWroteField(o, o.CreationTimestamp.Time, telling)
	if k != nil {
		if err := r.koordletPods(k, b.Pods); err != nil {
			return Node{}, err
		}
	}
	r.list(counted(o, b.Pods, written))
	return r.node(o.Name, o.Generation, written)
}

type zoneReader struct {
	coarse
	next topology.CPUID
}

// zone is a NUMA node with its amounts by resource.
type zone struct {
	id      topology.NUMAID
	at      *field.Path
	amounts map[string]zoneAmount
	costs   nrt.CostList
}

// zoneAmount has amounts in the resource's own unit: whole CPUs, bytes, or devices.
type zoneAmount struct{ capacity, allocatable, available uint64 }

func (a zoneAmount) used() uint64 { return a.allocatable - a.available }

// policiesOf reads policy and scope from the attributes, or from the deprecated list
// topologyPolicies.
func (r *zoneReader) policiesOf(o *nrt.NodeResourceTopology) error {
	policy, scope := attribute(o.Attributes, nrtPolicy), attribute(o.Attributes, nrtScope)
	if _, ok := placement.ParseScope(cmp.Or(scope, "container")); !ok {
		return r.at(field.NewPath("attributes").Key(nrtScope), scope, "container or pod")
	}
	if policy != "" {
		return r.policies(field.NewPath("attributes").Key(nrtPolicy), policy, scope)
	}
	if len(o.TopologyPolicies) == 0 {
		return r.at(field.NewPath("attributes").Key(nrtPolicy), "", "the policy of the node's Topology Manager")
	}
	at, legacy := field.NewPath("topologyPolicies").Index(0), o.TopologyPolicies[0]
	for pair, name := range legacyPolicies {
		if name == legacy && (legacy != "None" || pair[1] == "container") {
			return r.policies(at, pair[0], pair[1])
		}
	}
	// NFD before v0.12 and nri-plugins write no level, which means the container level.
	for pair, name := range legacyPolicies {
		if pair[1] == "container" && strings.TrimSuffix(name, "ContainerLevel") == legacy {
			return r.policies(at, pair[0], pair[1])
		}
	}
	return r.at(at, legacy, "a policy, like SingleNUMANodeContainerLevel")
}

func attribute(list nrt.AttributeList, name string) string {
	for _, a := range list {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// zones reads the zones of type Node. It returns an error if there is no such zone, unless the
// argument none allows this.
func (r *zoneReader) zones(list nrt.ZoneList, none bool) (out []zone, err error) {
	at := field.NewPath("zones")
	for i := range list {
		z := &list[i]
		if z.Type != "Node" {
			continue
		}
		number, ok := strings.CutPrefix(z.Name, "node-")
		id, err := wholeNumber(number, topology.MaxNUMANodes)
		if !ok || err != nil {
			return nil, r.at(at.Index(i).Child("name"), z.Name, "node-0 to node-"+strconv.Itoa(topology.MaxNUMANodes-1))
		}
		if slices.ContainsFunc(out, func(o zone) bool { return o.id == topology.NUMAID(id) }) {
			return nil, r.at(at.Index(i).Child("name"), z.Name, "each zone once")
		}
		one := zone{id: topology.NUMAID(id), at: at.Index(i).Child("resources"), costs: z.Costs, amounts: map[string]zoneAmount{}}
		for j := range z.Resources {
			if err := r.resource(&one, j, &z.Resources[j]); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	if len(out) == 0 && !none {
		return nil, r.at(at, Counted(len(list), "zone"), "a zone of type Node for each NUMA node")
	}
	slices.SortFunc(out, func(a, b zone) int { return cmp.Compare(a.id, b.id) })
	return out, nil
}

func (r *zoneReader) resource(z *zone, i int, info *nrt.ResourceInfo) error {
	at := z.at.Index(i)
	if _, twice := z.amounts[info.Name]; twice {
		return r.at(at.Child("name"), info.Name, "each resource once")
	}
	var a zoneAmount
	for _, f := range []struct {
		name string
		q    *resource.Quantity
		into *uint64
	}{{"capacity", &info.Capacity, &a.capacity}, {"allocatable", &info.Allocatable, &a.allocatable}, {"available", &info.Available, &a.available}} {
		if f.q.Sign() < 0 || f.q.CmpInt64(math.MaxInt64>>8) > 0 {
			return r.at(at.Child(f.name), f.q, "an amount that a machine can have")
		}
		v := f.q.Value() // Value rounds up
		if v > 0 && f.q.CmpInt64(v) < 0 {
			v-- // a part of a CPU cannot be exclusive
		}
		*f.into = uint64(v)
	}
	a.capacity = cmp.Or(a.capacity, a.allocatable) // the object has no capacity
	if a.available > a.allocatable || a.allocatable > a.capacity {
		return r.at(at, fmt.Sprintf("available %d, allocatable %d, capacity %d", a.available, a.allocatable, a.capacity), "available to be at most allocatable, and allocatable at most capacity")
	}
	z.amounts[info.Name] = a
	return nil
}

// takeCPUs invents CPU ids. The CPUs of a NUMA node are consecutive: reserved CPUs, then used CPUs,
// then free CPUs. If no zone has CPUs, each NUMA node gets one CPU, because a machine needs CPUs;
// without the static policy, no pod gets it exclusively.
func (r *zoneReader) takeCPUs(zones []zone) error {
	total := uint64(0)
	for i := range zones {
		total += min(zones[i].amounts["cpu"].capacity, topology.MaxCPUs+1)
	}
	if total > topology.MaxCPUs {
		return r.at(field.NewPath("zones"), total, "at most "+strconv.Itoa(topology.MaxCPUs)+" CPUs in total")
	}
	var reserved topology.CPUSet
	for i := range zones {
		a, known := zones[i].amounts["cpu"]
		count := a.capacity
		if total == 0 {
			count = 1
		}
		r.numaNode(zones[i].id)
		for n := range count {
			id := r.next
			r.next++
			r.addCPU(id, zones[i].id, topology.PackageID(zones[i].id), topology.CoreID(id))
			if known && n < a.capacity-a.allocatable {
				reserved.Add(id)
			}
			if n < a.capacity-a.allocatable || n >= a.capacity-a.available {
				r.free.Add(id)
			}
		}
	}
	r.sort()
	if total == 0 {
		return nil
	}
	r.config.CPUManagerPolicy = "static"
	if reserved.IsEmpty() { // a kubelet with the static policy reserves at least one CPU
		reserved = lowest(r.free, 1)
	}
	if reserved.IsEmpty() {
		return r.at(field.NewPath("zones"), "0 CPUs", "at least one CPU that the kubelet reserves for the system")
	}
	r.config.ReservedSystemCPUs = reserved.String()
	return nil
}

func usesMemory(zones []zone) bool {
	return slices.ContainsFunc(zones, func(z zone) bool { return z.amounts["memory"].used() > 0 })
}

// takeMemory sets the memory tables, and the memory manager's policy Static, if every zone has
// memory.
func (r *zoneReader) takeMemory(zones []zone) error {
	if slices.ContainsFunc(zones, func(z zone) bool { return z.amounts["memory"].allocatable == 0 }) {
		return nil
	}
	r.config.MemoryManagerPolicy = "Static"
	for i := range zones {
		if err := r.memoryOf(&zones[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *zoneReader) memoryOf(z *zone) error {
	node, table := r.numaNode(z.id), placement.MemoryTable{NUMA: z.id, Cells: topology.NewNUMASet(z.id)}
	limits := map[string]uint64{"memory": 1} // the memory policy Static requires reserved memory
	node.MemoryBytes = z.amounts["memory"].allocatable + 1
	names := make([]string, 0, len(z.amounts))
	for name := range z.amounts {
		if name == "memory" || strings.HasPrefix(name, "hugepages-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a := z.amounts[name]
		if size, ok := strings.CutPrefix(name, "hugepages-"); ok {
			page, err := parseBytes(size)
			if err != nil || page == 0 || page&(page-1) != 0 {
				return r.at(z.at.Key(name), name, "a page size that is a power of two")
			}
			node.HugePages = append(node.HugePages, topology.HugePages{PageBytes: page, Count: a.capacity / page})
			node.MemoryBytes += a.capacity / page * page
			limits[name] = a.capacity/page*page - min(a.allocatable, a.capacity/page*page)
		}
		table.Resources = append(table.Resources, placement.MemoryAmounts{Resource: name, Allocatable: a.allocatable, Reserved: a.used(), Free: a.available})
		if a.used() > 0 {
			table.Assignments++
			r.others.Memory = append(r.others.Memory, placement.MemoryBlock{Resource: name, NUMA: topology.NewNUMASet(z.id), Bytes: a.used()})
		}
	}
	slices.SortFunc(node.HugePages, func(a, b topology.HugePages) int { return cmp.Compare(a.PageBytes, b.PageBytes) })
	r.config.ReservedMemory = append(r.config.ReservedMemory, placement.ReservedMemory{NUMA: z.id, Limits: limits})
	r.memory = append(r.memory, table)
	return nil
}

// maxMadeUp is the maximum number of devices of a resource in a zone. A larger amount probably
// counts bytes.
const maxMadeUp = 1024

func (r *zoneReader) takeDevices(zones []zone) error {
	pools := map[string]*placement.DevicePool{}
	for i := range zones {
		z := &zones[i]
		for name, a := range z.amounts {
			if !amounts.IsExtended(name) {
				continue
			}
			if a.capacity > maxMadeUp {
				return r.at(z.at.Key(name), a.capacity, "at most "+strconv.Itoa(maxMadeUp)+" devices of one kind in a zone")
			}
			if pools[name] == nil {
				pools[name] = &placement.DevicePool{Resource: name, Preference: placement.UnknownPreference}
			}
			pools[name].Devices = append(pools[name].Devices, devicesOf(z.id, a)...)
			r.holdDevices(name, z.id, a)
		}
	}
	for _, p := range pools {
		slices.SortFunc(p.Devices, func(a, b placement.Device) int { return cmp.Compare(a.ID, b.ID) })
		r.pools = append(r.pools, *p)
	}
	slices.SortFunc(r.pools, func(a, b placement.DevicePool) int { return cmp.Compare(a.Resource, b.Resource) })
	slices.SortFunc(r.others.Devices, func(a, b placement.DeviceAllocation) int { return cmp.Compare(a.Resource, b.Resource) })
	for i := range r.others.Devices {
		slices.Sort(r.others.Devices[i].IDs)
	}
	return nil
}

func madeUp(zone topology.NUMAID, n uint64) string { return fmt.Sprintf("%s/%04d", zoneName(zone), n) }

// devicesOf invents device ids for an amount. It marks devices that are not allocatable as
// unhealthy.
func devicesOf(id topology.NUMAID, a zoneAmount) (out []placement.Device) {
	for n := range a.capacity {
		out = append(out, placement.Device{ID: madeUp(id, n), HasTopology: true, NUMA: topology.NewNUMASet(id), Unhealthy: n >= a.allocatable})
	}
	return out
}

func (r *zoneReader) holdDevices(name string, id topology.NUMAID, a zoneAmount) {
	if a.used() == 0 {
		return
	}
	i := slices.IndexFunc(r.others.Devices, func(d placement.DeviceAllocation) bool { return d.Resource == name })
	if i < 0 {
		i = len(r.others.Devices)
		r.others.Devices = append(r.others.Devices, placement.DeviceAllocation{Resource: name})
	}
	for n := range a.used() {
		r.others.Devices[i].IDs = append(r.others.Devices[i].IDs, madeUp(id, n))
	}
}

// distances reads the costs of the zones. It ignores them unless every zone has a cost for every
// zone.
func (r *zoneReader) distances(zones []zone) {
	rows := make([][]uint32, len(zones))
	for i := range zones {
		for j := range zones {
			k := slices.IndexFunc(zones[i].costs, func(c nrt.CostInfo) bool { return c.Name == zoneName(zones[j].id) })
			if k < 0 || zones[i].costs[k].Value < 1 || zones[i].costs[k].Value > math.MaxUint8 {
				return
			}
			rows[i] = append(rows[i], uint32(zones[i].costs[k].Value))
		}
	}
	for i := range zones {
		r.numaNode(zones[i].id).Distances = rows[i]
	}
}

// maxUncounted is the maximum number of pods that counted may omit to match a fingerprint.
const maxUncounted = 32

// counted returns the pods that the object includes: the bound pods (with the fingerprint method
// withExclusive, only the pods with exclusive resources). If the object's fingerprint matches only
// without the pods that started last, counted omits these pods, because the exporter did not know
// them yet. If no fingerprint matches, counted decides by the times of all bound pods.
func counted(o *nrt.NodeResourceTopology, bound []BoundPod, written time.Time) []BoundPod {
	want, known := attribute(o.Attributes, nrtFingerprint), slices.Clone(bound)
	if attribute(o.Attributes, nrtFingerprintMethod) == withExclusive {
		known = slices.DeleteFunc(known, func(p BoundPod) bool { return !p.Exclusive })
	}
	slices.SortStableFunc(known, func(a, b BoundPod) int {
		if a.Started.IsZero() != b.Started.IsZero() {
			return map[bool]int{true: 1, false: -1}[a.Started.IsZero()]
		}
		return a.Started.Compare(b.Started)
	})
	for without := 0; want != "" && without <= min(len(known), maxUncounted); without++ {
		if seen := known[:len(known)-without]; PodFingerprint(namesOf(seen)) == want {
			return seen
		}
	}
	return startedBy(boundBy(bound, written), written)
}

func namesOf(pods []BoundPod) []PodName {
	out := make([]PodName, len(pods))
	for i := range pods {
		out[i] = pods[i].PodName
	}
	return out
}
