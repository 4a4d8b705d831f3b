package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/api/lenient"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Annotations that koordlet writes on a NodeResourceTopology, as of July 2026.
const (
	koordletCPUs   = "node.koordinator.sh/cpu-topology"
	koordletShared = "node.koordinator.sh/cpu-shared-pools"
	koordletPods   = "node.koordinator.sh/pod-cpu-allocs"
	koordletPolicy = "kubelet.koordinator.sh/cpu-manager-policy"
)

// maxKoordletBytes is the API server's limit on the total size of an object's annotations.
const maxKoordletBytes = 256 << 10

// koordlet has the content of the annotations, which list only CPUs. The zones of koordlet's
// objects have total amounts, but not used amounts.
type koordlet struct {
	topology struct {
		Detail []koordletCPU `json:"detail"`
	}
	shared []struct {
		Socket int64  `json:"socket"`
		Node   int64  `json:"node"`
		CPUSet string `json:"cpuset"`
	}
	pods []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
		CPUSet    string `json:"cpuset"`
	}
	kubelet struct {
		Policy   string            `json:"policy"`
		Options  map[string]string `json:"options"`
		Reserved string            `json:"reservedCPUs"`
	}
}

type koordletCPU struct {
	ID     int64 `json:"id"`
	Core   int64 `json:"core"`
	Socket int64 `json:"socket"`
	Node   int64 `json:"node"`
}

// readKoordlet parses the annotations. It returns nil if the annotation about CPUs is missing. It
// ignores unknown fields, because later releases may add some.
func (r *zoneReader) readKoordlet(o *nrt.NodeResourceTopology) (*koordlet, error) {
	if _, found := o.Annotations[koordletCPUs]; !found {
		return nil, nil //nolint:nilnil // koordlet did not write the object
	}
	k := new(koordlet)
	for _, a := range []struct {
		key  string
		into any
		want string
	}{
		{koordletCPUs, &k.topology, `{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}`},
		{koordletShared, &k.shared, `[{"socket":0,"node":0,"cpuset":"1-3"}]`},
		{koordletPods, &k.pods, `[{"namespace":"a","name":"b","uid":"c","cpuset":"4-5"}]`},
		{koordletPolicy, &k.kubelet, `{"policy":"static","options":{},"reservedCPUs":"0"}`},
	} {
		text, found := o.Annotations[a.key]
		if !found {
			continue
		}
		if len(text) > maxKoordletBytes {
			return nil, r.at(annotation(a.key), text, fmt.Sprint("at most ", maxKoordletBytes, " bytes"))
		}
		if err := json.Unmarshal([]byte(text), a.into); err != nil {
			return nil, r.at(annotation(a.key), text, "JSON like "+a.want+": "+lenient.Plain(err))
		}
	}
	return k, nil
}

// koordletCPUs reads the CPUs, with their real ids, and the shared CPUs. There may be no zones,
// because the first releases of koordlet wrote none.
func (r *zoneReader) koordletCPUs(k *koordlet, zones []zone) error {
	if err := r.koordletTopology(k); err != nil {
		return err
	}
	for i := range zones {
		a, told := zones[i].amounts["cpu"]
		if has := uint64(r.numaNode(zones[i].id).CPUs.Len()); told && a.capacity != has {
			return r.at(annotation(koordletCPUs), fmt.Sprintf("%s on NUMA node %d", Counted(int(has), "CPU"), zones[i].id),
				fmt.Sprintf("%s, the capacity of zone %s", Counted(int(a.capacity), "CPU"), zoneName(zones[i].id)))
		}
	}
	for i := range r.machine.NUMANodes {
		id := r.machine.NUMANodes[i].ID
		if len(zones) > 0 && !slices.ContainsFunc(zones, func(z zone) bool { return z.id == id }) {
			return r.at(annotation(koordletCPUs), id, "NUMA nodes that have a zone")
		}
	}
	r.sort()
	if err := r.koordletShared(k); err != nil {
		return err
	}
	return r.koordletPolicy(k)
}

func (r *zoneReader) koordletTopology(k *koordlet) error {
	at := annotation(koordletCPUs).Child("detail")
	if n := len(k.topology.Detail); n == 0 || n > topology.MaxCPUs {
		return r.at(at, n, fmt.Sprint("1 to ", topology.MaxCPUs, " CPUs"))
	}
	for i, c := range k.topology.Detail {
		at := at.Index(i)
		if c.ID < 0 || c.ID >= topology.MaxCPUs || r.machine.Online.Has(topology.CPUID(c.ID)) {
			return r.at(at.Child("id"), c.ID, fmt.Sprint("0 to ", topology.MaxCPUs-1, ", each once"))
		}
		if err := r.readCPU(at, "node", cpuPlace{topology.CPUID(c.ID), c.Node, c.Socket, c.Core}); err != nil {
			return err
		}
	}
	return nil
}

// koordletShared reads the shared pools, which have the CPUs that no pod has exclusively. If there
// are no pools, the used CPUs are not known, and all CPUs count as free.
func (r *zoneReader) koordletShared(k *koordlet) error {
	if k.shared == nil {
		r.free = r.machine.Online
		return nil
	}
	for i, pool := range k.shared {
		at := annotation(koordletShared).Index(i)
		cpus, err := topology.ParseCPUList(pool.CPUSet)
		if err != nil {
			return r.at(at.Child("cpuset"), pool.CPUSet, "a CPU list: "+err.Error())
		}
		var here topology.CPUSet
		if pool.Node >= 0 && pool.Node < topology.MaxNUMANodes {
			if n := r.machine.NUMANode(topology.NUMAID(pool.Node)); n != nil {
				here = n.CPUs
			}
		}
		switch {
		case cpus.IsSubsetOf(&here):
		case here.IsEmpty():
			return r.at(at.Child("node"), pool.Node, "a NUMA node that has CPUs in "+koordletCPUs)
		default:
			return r.at(at.Child("cpuset"), pool.CPUSet, fmt.Sprintf("CPUs of NUMA node %d: %s", pool.Node, here.String()))
		}
		r.free = r.free.Or(&cpus)
	}
	return nil
}

// koordletPolicy reads the settings of the kubelet's CPU manager. The reserved CPUs are shared even
// if no pool lists them. A CPU manager with the static policy reserves at least one CPU.
func (r *zoneReader) koordletPolicy(k *koordlet) error {
	p := &k.kubelet
	if p.Policy != "" && p.Policy != "none" && p.Policy != "static" {
		return r.at(annotation(koordletPolicy).Child("policy"), p.Policy, "none or static")
	}
	r.config.CPUManagerPolicy, r.config.CPUManagerPolicyOptions = p.Policy, p.Options
	if p.Policy != "static" {
		return nil
	}
	return r.koordletReserved(p.Reserved)
}

// koordletReserved reads the CPUs that a kubelet with the static policy reserves for the system.
func (r *zoneReader) koordletReserved(text string) error {
	at := annotation(koordletPolicy).Child("reservedCPUs")
	reserved, err := topology.ParseCPUList(text)
	if err != nil {
		return r.at(at, text, "a CPU list: "+err.Error())
	}
	if !reserved.IsSubsetOf(&r.machine.Online) {
		return r.at(at, text, "CPUs that the node has: "+r.machine.Online.String())
	}
	if r.free = r.free.Or(&reserved); reserved.IsEmpty() {
		reserved = lowest(r.free, 1)
	}
	if reserved.IsEmpty() {
		return r.at(annotation(koordletShared), "", "at least one CPU that the kubelet reserves for the system")
	}
	r.config.ReservedSystemCPUs = reserved.String()
	return nil
}

// koordletPods reads the pods that hold CPUs. It omits pods that are not bound to the node in the
// API. Their CPUs, and CPUs that are in no shared pool and belong to no pod, are assigned to the
// artificial pod Others (charge).
func (r *zoneReader) koordletPods(k *koordlet, bound []BoundPod) error {
	if r.config.CPUManagerPolicy != "static" {
		return nil // the kubelet gives pods no exclusive CPUs
	}
	var taken topology.CPUSet
	for i, p := range k.pods {
		at := annotation(koordletPods).Index(i)
		cpus, err := topology.ParseCPUList(p.CPUSet)
		if err != nil || cpus.IsEmpty() {
			return r.at(at.Child("cpuset"), p.CPUSet, "a CPU list with at least one CPU")
		}
		if !cpus.IsSubsetOf(&r.machine.Online) || cpus.Intersects(&r.free) || cpus.Intersects(&taken) {
			return r.at(at.Child("cpuset"), p.CPUSet, "CPUs of the node that are not in a shared pool, not reserved, and not held by another pod")
		}
		taken = taken.Or(&cpus)
		at = at.Child("uid")
		known := slices.IndexFunc(bound, func(b BoundPod) bool { return b.UID == p.UID && p.UID != "" })
		switch {
		case p.UID == "":
			return r.at(at, "", "the pod's UID")
		case known < 0:
			continue
		case slices.ContainsFunc(r.pods, func(o placement.PodAllocation) bool { return o.UID == p.UID }):
			return r.at(at, p.UID, "each pod once")
		}
		r.pods = append(r.pods, placement.PodAllocation{UID: p.UID, Containers: []placement.ContainerAllocation{{Name: koordletContainer, CPUs: cpus}}})
		r.named = append(r.named, bound[known].PodName)
	}
	return nil
}

// koordletContainer is the name of an artificial container. It stands for all containers of a pod,
// because koordlet reports them together.
const koordletContainer = "pod"
