package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

// ReadReport translates only the status. It returns an error if the status contradicts itself: a
// CPU is held by two pods, or is both held and shared; a list is not sorted; or more memory is
// reserved than is allocatable. CheckReport and placement.Model.StateOf check that the report fits
// the machine. The error is a *FieldError or an *OtherFormError.
func ReadReport(nt *v1alpha1.NodeTopology) (Report, error) {
	if nt.Malformed != "" {
		return Report{}, &OtherFormError{nt.Malformed}
	}
	r := reportReader{fieldErrors: fieldErrors("NodeTopology " + nt.Name)}
	s := &nt.Status
	at := field.NewPath("status")
	out := Report{Sequence: s.Sequence, Observed: s.ObservedTime.Time, KubeletStarted: kubeletStarted(nt), Conditions: s.Conditions}
	if s.Sequence < 0 {
		return Report{}, r.at(at.Child("sequence"), s.Sequence, "a number that is not negative")
	}
	var err error
	if out.Snapshot.SharedCPUs, err = r.cpus(at.Child("sharedCPUs"), s.SharedCPUs); err != nil {
		return Report{}, err
	}
	if out.Snapshot.Memory, err = r.memory(at.Child("memory"), s.Memory); err != nil {
		return Report{}, err
	}
	if out.Snapshot.Devices, err = r.pools(at.Child("devices"), s.Devices); err != nil {
		return Report{}, err
	}
	if err := r.pods(at.Child("pods"), s.Pods, &out); err != nil {
		return Report{}, err
	}
	return out, nil
}

// kubeletStarted returns the time when the kubelet started, from the agent's annotation. It returns
// zero if the annotation is missing or invalid.
func kubeletStarted(nt *v1alpha1.NodeTopology) time.Time {
	at, err := time.Parse(time.RFC3339, nt.Annotations[v1alpha1.KubeletStartedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Complete adds the connections of devices, which are in the spec and not in the status.
func (r *Report) Complete(spec *NodeSpec) {
	for i := range r.Snapshot.Devices {
		r.Snapshot.Devices[i].Connect(spec.Machine)
	}
}

// CheckReport checks that a report fits the machine of a spec. The error is a *FieldError.
func CheckReport(spec *NodeSpec, report *Report, name string) error {
	e := fieldErrors("NodeTopology " + name)
	at := field.NewPath("status")
	all := spec.Machine.Online
	if extra := report.Snapshot.SharedCPUs.AndNot(&all); !extra.IsEmpty() {
		return e.at(at.Child("sharedCPUs"), extra, "CPUs that spec.machine has online: "+all.String())
	}
	for i := range report.Snapshot.Memory {
		if id := report.Snapshot.Memory[i].NUMA; spec.Machine.NUMANode(id) == nil {
			return e.at(at.Child("memory").Index(i).Child("numa"), id, "a NUMA node of spec.machine")
		}
	}
	for i := range report.Snapshot.Devices {
		if report.Snapshot.Devices[i].Decided && spec.Authority != v1alpha1.AuthorityBerth {
			return e.at(at.Child("devices").Index(i).Child("decidedBy"), v1alpha1.AuthorityBerth, "kubelet, as spec.authority says")
		}
	}
	for i := range report.Snapshot.Pods {
		for j := range report.Snapshot.Pods[i].Containers {
			c := &report.Snapshot.Pods[i].Containers[j]
			if extra := c.CPUs.AndNot(&all); !extra.IsEmpty() {
				return e.at(at.Child("pods").Index(i).Child("containers").Index(j).Child("cpus"), extra,
					"CPUs that spec.machine has online: "+all.String())
			}
		}
	}
	return nil
}

// reportReader reads a status; its methods return *FieldErrors about the object.
type reportReader struct {
	fieldErrors
	taken topology.CPUSet // exclusive CPUs of the pods that were read so far
}

func (r *reportReader) cpus(at *field.Path, list v1alpha1.CPUList) (topology.CPUSet, error) {
	set, err := topology.ParseCPUList(string(list))
	if err != nil {
		return set, r.at(at, list, "a CPU list: "+err.Error())
	}
	return set, nil
}

func (r *reportReader) numa(at *field.Path, list v1alpha1.NUMAList) (topology.NUMASet, error) {
	set, err := topology.ParseNUMAList(string(list))
	if err != nil {
		return 0, r.at(at, list, "a list of NUMA nodes: "+err.Error())
	}
	return set, nil
}

func (r *reportReader) memory(at *field.Path, tables []v1alpha1.MemoryTable) ([]placement.MemoryTable, error) {
	var out []placement.MemoryTable
	for i := range tables {
		t, err := r.table(at.Index(i), &tables[i])
		if err != nil {
			return nil, err
		}
		if i > 0 && out[i-1].NUMA >= t.NUMA {
			return nil, r.at(at.Index(i).Child("numa"), t.NUMA, "NUMA nodes in ascending order, each once")
		}
		out = append(out, t)
	}
	return out, nil
}

func (r *reportReader) table(at *field.Path, t *v1alpha1.MemoryTable) (placement.MemoryTable, error) {
	var out placement.MemoryTable
	if t.NUMA < 0 || t.NUMA >= topology.MaxNUMANodes {
		return out, r.at(at.Child("numa"), t.NUMA, "a NUMA node between 0 and 63")
	}
	out.NUMA = topology.NUMAID(t.NUMA)
	if t.Assignments < 0 {
		return out, r.at(at.Child("assignments"), t.Assignments, "a number that is not negative")
	}
	out.Assignments = int(t.Assignments)
	cells, err := r.numa(at.Child("cells"), t.Cells)
	if err != nil {
		return out, err
	}
	if out.Cells = cmp.Or(cells, topology.NewNUMASet(out.NUMA)); !out.Cells.Has(out.NUMA) {
		return out, r.at(at.Child("cells"), t.Cells, fmt.Sprintf("a group that contains NUMA node %d", t.NUMA))
	}
	for i := range t.Resources {
		a := &t.Resources[i]
		at := at.Child("resources").Index(i)
		if i > 0 && t.Resources[i-1].Resource >= a.Resource {
			return out, r.at(at.Child("resource"), a.Resource, "resources in ascending order, each once")
		}
		if a.Reserved < 0 || a.Reserved > a.Allocatable {
			return out, r.at(at.Child("reserved"), a.Reserved, fmt.Sprintf("between 0 and allocatable, %d", a.Allocatable))
		}
		out.Resources = append(out.Resources, placement.MemoryAmounts{
			Resource: string(a.Resource), Allocatable: uint64(a.Allocatable), Reserved: uint64(a.Reserved), Free: uint64(a.Allocatable - a.Reserved),
		})
	}
	return out, nil
}

func (r *reportReader) pools(at *field.Path, pools []v1alpha1.DevicePool) ([]placement.DevicePool, error) {
	var out []placement.DevicePool
	for i := range pools {
		p := &pools[i]
		if i > 0 && pools[i-1].Resource >= p.Resource {
			return nil, r.at(at.Index(i).Child("resource"), p.Resource, "resources in ascending order, each once")
		}
		preference, ok := preferences[p.Preference]
		if !ok {
			return nil, r.at(at.Index(i).Child("preference"), p.Preference, "None, Sorted, NVIDIA or Unknown")
		}
		decided := p.DecidedBy == v1alpha1.AuthorityBerth
		if p.DecidedBy != "" && p.DecidedBy != v1alpha1.AuthorityKubelet && !decided {
			return nil, r.at(at.Index(i).Child("decidedBy"), p.DecidedBy, "kubelet or berth")
		}
		devices, err := r.devices(at.Index(i).Child("groups"), p.Groups)
		if err != nil {
			return nil, err
		}
		out = append(out, placement.DevicePool{Resource: string(p.Resource), Preference: preference, Decided: decided, Devices: devices})
	}
	return out, nil
}

// DecidedPools returns the pools whose devices Berth assigns. All devices are marked healthy, so
// the result changes only if a device plugin offers other devices. If a pool is invalid, the result
// is nil, and ReadReport returns the error.
func DecidedPools(nt *v1alpha1.NodeTopology) []placement.DevicePool {
	if !slices.ContainsFunc(nt.Status.Devices, func(p v1alpha1.DevicePool) bool { return p.DecidedBy == v1alpha1.AuthorityBerth }) {
		return nil
	}
	r := reportReader{fieldErrors: fieldErrors("NodeTopology " + nt.Name)}
	pools, _ := r.pools(field.NewPath("status", "devices"), nt.Status.Devices)
	return Decided(pools)
}

// Decided returns the pools whose devices Berth assigns. All devices are marked healthy.
func Decided(pools []placement.DevicePool) (out []placement.DevicePool) {
	for _, p := range pools {
		if !p.Decided {
			continue
		}
		p.Devices = slices.Clone(p.Devices)
		for i := range p.Devices {
			p.Devices[i].Unhealthy = false
		}
		out = append(out, p)
	}
	return out
}

var preferences = map[v1alpha1.Preference]placement.Preference{
	"":                         placement.NoPreference,
	v1alpha1.PreferenceNone:    placement.NoPreference,
	v1alpha1.PreferenceSorted:  placement.SortedPreference,
	v1alpha1.PreferenceNVIDIA:  placement.NVIDIAPreference,
	v1alpha1.PreferenceUnknown: placement.UnknownPreference,
}

func (r *reportReader) devices(at *field.Path, groups []v1alpha1.DeviceGroup) ([]placement.Device, error) {
	var out []placement.Device
	for i := range groups {
		g := &groups[i]
		d := placement.Device{HasTopology: g.NUMA != nil, Unhealthy: g.Unhealthy}
		if g.NUMA != nil {
			var err error
			if d.NUMA, err = r.numa(at.Index(i).Child("numa"), *g.NUMA); err != nil {
				return nil, err
			}
		}
		if len(g.Addresses) > 0 && len(g.Addresses) != len(g.IDs) {
			return nil, r.at(at.Index(i).Child("addresses"), len(g.Addresses), fmt.Sprintf("none, or one for each of the %d ids", len(g.IDs)))
		}
		for j, id := range g.IDs {
			if d.ID = string(id); len(g.Addresses) > 0 {
				d.Address = string(g.Addresses[j])
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
	for i := 1; i < len(out); i++ {
		if out[i].ID == out[i-1].ID {
			return nil, r.at(at, out[i].ID, "each device once")
		}
	}
	return out, nil
}

func (r *reportReader) pods(at *field.Path, pods []v1alpha1.PodAllocation, out *Report) error {
	seen := make(map[string]bool, len(pods))
	for i := range pods {
		p := &pods[i]
		at := at.Index(i)
		if p.Malformed != "" {
			want := "a line of text with the resources of a pod"
			if _, err := v1alpha1.ParsePodAllocation(p.Malformed); err != nil {
				want += ": " + err.Error()
			}
			return r.at(at, p.Malformed, want)
		}
		if p.UID == "" || seen[p.UID] {
			return r.at(at.Child("uid"), p.UID, "the UID of a pod, each once")
		}
		seen[p.UID] = true
		if p.State != "" && p.State != v1alpha1.PodEnded && p.State != v1alpha1.PodRejected && p.State != v1alpha1.PodUnknown {
			return r.at(at.Child("state"), p.State, "Ended, Rejected, Unknown or no value")
		}
		more := ReportedPod{State: p.State}
		if p.Pod != "" {
			var ok bool
			if more.Namespace, more.Name, ok = strings.Cut(p.Pod, "/"); !ok || more.Namespace == "" || more.Name == "" {
				return r.at(at.Child("pod"), p.Pod, "NAMESPACE/NAME")
			}
		}
		pod := placement.PodAllocation{UID: p.UID, Generation: p.Generation}
		var held topology.CPUSet
		if p.Whole != nil {
			c, err := r.container(at.Child("whole"), p.Whole, &out.Snapshot.SharedCPUs)
			if err != nil {
				return err
			}
			held = c.CPUs
			pod.Whole = &placement.Whole{CPUs: c.CPUs, Memory: c.Memory}
		}
		for j := range p.Containers {
			c, err := r.container(at.Child("containers").Index(j), &p.Containers[j], &out.Snapshot.SharedCPUs)
			if err != nil {
				return err
			}
			held = held.Or(&c.CPUs)
			pod.Containers = append(pod.Containers, c)
		}
		if j := pod.NamedTwice(); j >= 0 {
			return r.at(at.Child("containers").Index(j).Child("name"), pod.Containers[j].Name, "each container once")
		}
		r.taken = r.taken.Or(&held)
		out.Snapshot.Pods = append(out.Snapshot.Pods, pod)
		out.Pods = append(out.Pods, more)
	}
	return nil
}

var containerKinds = map[v1alpha1.ContainerKind]placement.ContainerKind{
	"":                   placement.App,
	v1alpha1.KindApp:     placement.App,
	v1alpha1.KindInit:    placement.Init,
	v1alpha1.KindSidecar: placement.Sidecar,
}

func (r *reportReader) container(at *field.Path, c *v1alpha1.ContainerAllocation, shared *topology.CPUSet) (placement.ContainerAllocation, error) {
	out := placement.ContainerAllocation{Name: c.Name}
	kind, ok := containerKinds[c.Kind]
	if !ok {
		return out, r.at(at.Child("kind"), c.Kind, "App, Init, Sidecar or no value")
	}
	out.Kind = kind
	var err error
	if out.CPUs, err = r.cpus(at.Child("cpus"), c.CPUs); err != nil {
		return out, err
	}
	if out.CPUs.Intersects(shared) {
		return out, r.at(at.Child("cpus"), c.CPUs, "CPUs that are not in status.sharedCPUs")
	}
	if out.CPUs.Intersects(&r.taken) {
		return out, r.at(at.Child("cpus"), c.CPUs, "CPUs that no other pod holds")
	}
	level := slices.Index(exclusiveNames[:], string(c.Exclusive))
	if level < 0 {
		return out, r.at(at.Child("exclusive"), c.Exclusive, "core, numa or no value")
	}
	out.Exclusive = joint.Exclusive(level)
	if out.Shares, err = r.shares(at.Child("shares"), c.Shares); err != nil {
		return out, err
	}
	for i := range c.Memory {
		b, err := r.block(at.Child("memory").Index(i), c.Memory[i])
		if err != nil {
			return out, err
		}
		out.Memory = append(out.Memory, b)
	}
	out.Devices, err = r.held(at.Child("devices"), c.Devices)
	return out, err
}

// block reads RESOURCE@NODES=QUANTITY.
func (r *reportReader) block(at *field.Path, b v1alpha1.MemoryBlock) (placement.MemoryBlock, error) {
	name, rest, ok := strings.Cut(string(b), "@")
	nodes, size, ok2 := strings.Cut(rest, "=")
	if !ok || !ok2 || name == "" || len(b) > 512 {
		return placement.MemoryBlock{}, r.at(at, b, `RESOURCE@NODES=QUANTITY, like "memory@0-1=6Gi"`)
	}
	numa, err := r.numa(at, v1alpha1.NUMAList(nodes))
	if err != nil {
		return placement.MemoryBlock{}, err
	}
	bytes, err := parseBytes(size)
	if numa == 0 || err != nil {
		return placement.MemoryBlock{}, r.at(at, b, `at least one NUMA node and a whole number of bytes, like "memory@0-1=6Gi"`)
	}
	return placement.MemoryBlock{Resource: name, NUMA: numa, Bytes: bytes}, nil
}

// parseBytes reads a quantity that is a whole number of bytes from 0 to 2^63-1.
func parseBytes(text string) (uint64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	v, ok := q.AsInt64()
	if !ok || v < 0 {
		return 0, fmt.Errorf("%s is not a whole number of bytes below 2^63", clip.Quoted(text))
	}
	return uint64(v), nil
}

func (r *reportReader) held(at *field.Path, devices []v1alpha1.DeviceAllocation) ([]placement.DeviceAllocation, error) {
	var out []placement.DeviceAllocation
	for i, d := range devices {
		if i > 0 && devices[i-1].Resource >= d.Resource {
			return nil, r.at(at.Index(i).Child("resource"), d.Resource, "resources in ascending order, each once")
		}
		a := placement.DeviceAllocation{Resource: string(d.Resource)}
		for j, id := range d.IDs {
			if j > 0 && d.IDs[j-1] >= id {
				return nil, r.at(at.Index(i).Child("ids").Index(j), id, "ids in ascending order, each once")
			}
			a.IDs = append(a.IDs, string(id))
		}
		out = append(out, a)
	}
	return out, nil
}
