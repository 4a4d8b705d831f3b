package wire

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// ReadNumatopology makes a Node from a Numatopology of Volcano's exporter. The ids of CPUs are
// real. The object contains neither the scope nor the options of the kubelet's managers, so Berth
// assumes the defaults. The object contains no memory either, so Berth does not check memory. The
// error names the wrong field.
//
// Exporters since v1.16 list the pods that hold CPUs. For earlier exporters, a pod counts if the
// kubelet had admitted it when the object was written.
func ReadNumatopology(nt *nodeinfo.Numatopology, b *Beside) (Node, error) {
	r := numatopologyReader{coarse{fieldErrors: fieldErrors("Numatopology " + nt.Name), version: b.KubeletVersion}}
	if nt.Malformed != "" {
		return Node{}, r.malformed(nt.Malformed)
	}
	s, at := &nt.Spec, field.NewPath("spec")
	r.config.CPUManagerPolicy = s.Policies[nodeinfo.CPUManagerPolicy]
	policies := at.Child("policies")
	if p := r.config.CPUManagerPolicy; p != "" && p != "none" && p != "static" {
		return Node{}, r.at(policies.Key(nodeinfo.CPUManagerPolicy), p, "none or static")
	}
	if err := r.policies(policies.Key(nodeinfo.TopologyManagerPolicy), s.Policies[nodeinfo.TopologyManagerPolicy], ""); err != nil {
		return Node{}, err
	}
	if err := r.cpus(at.Child("cpuDetail"), s.CPUDetail); err != nil {
		return Node{}, err
	}
	if err := r.freeCPUs(at.Child("numares").Key("cpu"), s.Resources["cpu"]); err != nil {
		return Node{}, err
	}
	if err := r.allocations(at.Child("podAllocations"), s.PodAllocations, b.Pods); err != nil {
		return Node{}, err
	}
	written, pods := exportedAt(nt), b.Pods
	if written.IsZero() {
		written = lastWroteField(nt, nt.CreationTimestamp.Time, "numares")
		pods = boundBy(pods, written)
	}
	if len(s.PodAllocations) == 0 {
		r.list(startedBy(pods, written))
	}
	if err := r.reserved(at.Child("resReserved").Key("cpu"), s.ResReserved["cpu"]); err != nil {
		return Node{}, err
	}
	return r.node(nt.Name, nt.Generation, written)
}

type numatopologyReader struct{ coarse }

// exportedAt returns the time that the exporter wrote into the object, by the node's clock, or
// zero.
func exportedAt(nt *nodeinfo.Numatopology) time.Time {
	if seconds, err := strconv.ParseInt(nt.Annotations[nodeinfo.TimestampAnnotation], 10, 64); err == nil && seconds > 0 {
		return time.Unix(seconds, 0)
	}
	return time.Time{}
}

func (r *numatopologyReader) cpus(at *field.Path, detail map[string]nodeinfo.CPUInfo) error {
	if len(detail) == 0 {
		return r.at(at, "none", "the CPUs of the node: its exporter could not read them")
	}
	ids := make([]int, 0, len(detail))
	for text := range detail {
		id, err := wholeNumber(text, topology.MaxCPUs)
		if err != nil {
			return r.at(at.Key(text), text, "the id of a CPU, from 0 to "+strconv.Itoa(topology.MaxCPUs-1))
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		info, at := detail[strconv.Itoa(id)], at.Key(strconv.Itoa(id))
		place := cpuPlace{topology.CPUID(id), int64(info.NUMANodeID), int64(info.SocketID), int64(info.CoreID)}
		if err := r.readCPU(at, "numa", place); err != nil {
			return err
		}
	}
	r.sort()
	return nil
}

func (r *numatopologyReader) freeCPUs(at *field.Path, info nodeinfo.ResourceInfo) error {
	var err error
	if r.free, err = topology.ParseCPUList(info.Allocatable); err != nil {
		return r.at(at.Child("allocatable"), info.Allocatable, "a CPU list: "+err.Error())
	}
	if strange := r.free.AndNot(&r.machine.Online); !strange.IsEmpty() {
		return r.at(at.Child("allocatable"), info.Allocatable, "CPUs that spec.cpuDetail has: "+r.machine.Online.String())
	}
	return nil
}

func (r *numatopologyReader) allocations(at *field.Path, list []nodeinfo.PodAllocation, bound []BoundPod) error {
	var taken topology.CPUSet
	for i := range list {
		p, at := &list[i], at.Index(i)
		out := placement.PodAllocation{UID: uidOf(p, bound)}
		if out.UID == "" {
			continue // the API no longer has it: its CPUs count for Others
		}
		for j, c := range p.ContainerAllocations {
			at := at.Child("containerAllocations").Index(j).Child("allocations").Key("cpu")
			cpus, err := topology.ParseCPUList(c.Allocations["cpu"])
			if err != nil {
				return r.at(at, c.Allocations["cpu"], "a CPU list: "+err.Error())
			}
			if !cpus.IsSubsetOf(&r.machine.Online) || cpus.Intersects(&r.free) || cpus.Intersects(&taken) {
				return r.at(at, cpus, "CPUs of the node that are not free, and that no other container holds")
			}
			taken = taken.Or(&cpus)
			out.Containers = append(out.Containers, placement.ContainerAllocation{Name: c.Name, CPUs: cpus})
		}
		if slices.ContainsFunc(r.pods, func(o placement.PodAllocation) bool { return o.UID == out.UID }) {
			return r.at(at, out.UID, "each pod once")
		}
		r.pods = append(r.pods, out)
		r.named = append(r.named, PodName{p.Namespace, p.Name})
	}
	return nil
}

// uidOf returns the UID of the bound pod that p describes, or "" if there is none. If p has no UID,
// uidOf compares names, and skips pods that the kubelet has not accepted yet: such a pod is a
// successor with the same name.
func uidOf(p *nodeinfo.PodAllocation, bound []BoundPod) string {
	for i := range bound {
		b := &bound[i]
		if p.UID != "" && p.UID == b.UID || p.UID == "" && (PodName{p.Namespace, p.Name}) == b.PodName && !b.Started.IsZero() {
			return b.UID
		}
	}
	return ""
}

// reserved sets the CPUs that the kubelet reserves for the system, which are never exclusive. It
// assumes the CPUs that the static policy would choose for the amount in text, but at least one
// CPU. The kubelet may have reserved other CPUs, because the exporter ignores reservedSystemCPUs.
// So if a pod holds one of the assumed CPUs, reserved uses the lowest free CPUs instead.
func (r *numatopologyReader) reserved(at *field.Path, text string) error {
	if r.config.CPUManagerPolicy != "static" {
		return nil
	}
	if r.free.IsEmpty() {
		return r.at(field.NewPath("spec", "numares").Key("cpu").Child("allocatable"), "", "at least the reserved CPUs: no CPU of the node is free")
	}
	milli := int64(1000)
	if text != "" {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 || q.CmpInt64(topology.MaxCPUs) > 0 {
			return r.at(at, text, "a number of CPUs")
		}
		milli = max(1000, q.MilliValue())
	}
	r.config.ReservedMilliCPU = milli
	view, err := placement.ViewOf(&r.machine)
	if err != nil {
		return r.at(field.NewPath("spec", "cpuDetail"), "", err.Error())
	}
	m, err := placement.NewModel(view, r.config)
	if err != nil {
		return nil // building the Node returns the error
	}
	if want := m.ReservedCPUs(); !want.IsSubsetOf(&r.free) {
		r.config.ReservedMilliCPU, r.config.ReservedSystemCPUs = 0, lowest(r.free, want.Len()).String()
	}
	return nil
}

// lowest returns the first count CPUs of a set, or the whole set if it has fewer.
func lowest(of topology.CPUSet, count int) (out topology.CPUSet) {
	for id := range of.All() {
		if out.Len() == count {
			break
		}
		out.Add(id)
	}
	return out
}
