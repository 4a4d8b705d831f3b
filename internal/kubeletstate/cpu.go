package kubeletstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/berth-dev/berth/topology"
)

// CPUState is the content of a cpu_manager_state.
type CPUState struct {
	Policy string
	// Shared is defaultCpuSet: the CPUs that no container has exclusively. The kubelet leaves it
	// empty under the policy none.
	Shared topology.CPUSet
	// Entries are the exclusive CPUs, ascending by pod UID, then container.
	Entries []CPUEntry
	// PodEntries are pod-level assignments (gate PodLevelResourceManagers), ascending by pod UID.
	PodEntries []CPUEntry
	// Legacy are the entries of a file from before Kubernetes 1.17. The keys of such a file are
	// container ids, so PodUID is "".
	Legacy []CPUEntry
	// Verified is false if the file has no checksum. The kubelet accepts this in old formats.
	Verified bool
}

// CPUEntry has the exclusive CPUs of a container, or, if Container is "", of a pod as a whole.
type CPUEntry struct {
	PodUID, Container string
	CPUs              topology.CPUSet
}

// The file in the formats of pkg/kubelet/cm/cpumanager/state/checkpoint.go: v2, v3 (podEntries) and
// v4 (data).
type cpuFile struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries"`
	PodEntries    map[string]podCPUEntry       `json:"podEntries"`
	Baselines     json.RawMessage              `json:"baselines"` // v4 data: CPUs at admission, for resizing
	Checksum      uint64                       `json:"checksum"`
	Data          string                       `json:"data"`
	DataChecksum  uint64                       `json:"dataChecksum"`
}

type podCPUEntry struct {
	CPUSet string `json:"cpuSet"`
}

// newCPUFile returns a file with empty maps instead of nil maps, like the kubelet's constructors,
// because the checksum distinguishes them.
func newCPUFile() cpuFile {
	return cpuFile{Entries: map[string]map[string]string{}, PodEntries: map[string]podCPUEntry{}}
}

// sums returns the checksums without (v2) and with (v3) the field for pod-level assignments. nameV2
// and nameV3 are the kubelet's names for the types, which are part of the checksums. sums ignores
// unreadable lists of CPUs; cpuState returns the error about them.
func (in *cpuFile) sums(nameV2, nameV3 string) (v2, v3 uint32) {
	pods := podCPUs{}
	if in.PodEntries == nil {
		pods = nil
	}
	for uid, e := range in.PodEntries {
		cpus, _ := parseRanges(e.CPUSet)
		pods[uid] = podCPUSet{cpus}
	}
	dumped, _ := pods.dumped()
	sum := func(name string, pods *podDump) uint32 {
		return sumCPU(name, in.PolicyName, in.DefaultCPUSet, in.Entries, pods)
	}
	return sum(nameV2, nil), sum(nameV3, &dumped)
}

// verify accepts the checksums of v2 and v3, and a missing checksum. A checksum depends on the name
// of the kubelet's Go type for the format. verify accepts both names that kubelets use:
// CPUManagerCheckpoint, and the name with the format's number. Unless the checksum is that of v3,
// verify removes the pod-level assignments, because a kubelet reads them only from v3.
func (in *cpuFile) verify(f file) *Error {
	pods := in.PodEntries
	v2, v3 := in.sums(cpuTypeName, cpuTypeName)
	ownV2, ownV3 := in.sums("CPUManagerCheckpointV2", "CPUManagerCheckpointV3")
	in.PodEntries = nil
	switch in.Checksum {
	case uint64(v3), uint64(ownV3):
		in.PodEntries = pods
		return nil
	case 0, uint64(v2), uint64(ownV2):
		return nil
	}
	if len(pods) > 0 {
		v2 = v3
	}
	return f.checksum("checksum", in.Checksum, v2)
}

// ParseCPU parses a cpu_manager_state of Kubernetes 1.8 to 1.37. The error is an *Error that
// contains name as the file's name.
func ParseCPU(name string, data []byte) (*CPUState, error) {
	f := file(name)
	in := newCPUFile()
	if err := decode(data, &in); err != nil {
		old, oldErr := parseCPUv1(f, data)
		if oldErr == nil || errors.Is(oldErr, ErrChecksum) {
			return old, oldErr
		}
		return nil, f.broken("", err, "the JSON of a cpu_manager_state")
	}
	out := &CPUState{}
	switch {
	case in.Data != "" || in.DataChecksum != 0:
		if in.DataChecksum != uint64(sumText(in.Data)) {
			return nil, f.checksum("dataChecksum", in.DataChecksum, sumText(in.Data))
		}
		inner := newCPUFile()
		if err := decode([]byte(in.Data), &inner); err != nil {
			return nil, f.broken("data", err, "the JSON of a CPU manager checkpoint")
		}
		in, out.Verified = inner, true
	default:
		out.Verified = in.Checksum != 0
		if err := in.verify(f); err != nil {
			if old, oldErr := parseCPUv1(f, data); oldErr == nil { // a file without entries may have either format
				return old, nil
			}
			return nil, err
		}
	}
	return out, f.cpuState(&in, out)
}

func parseCPUv1(f file, data []byte) (*CPUState, error) {
	in := cpuV1{Entries: map[string]string{}}
	if err := decode(data, &in); err != nil {
		return nil, err
	}
	if in.Checksum != 0 && in.Checksum != checksumValue(sumCPUv1(&in)) {
		return nil, f.checksum("checksum", uint64(in.Checksum), sumCPUv1(&in))
	}
	out := &CPUState{Policy: in.PolicyName, Verified: in.Checksum != 0}
	var err error
	if out.Shared, err = f.cpus("defaultCpuSet", in.DefaultCPUSet); err != nil {
		return nil, err
	}
	out.Legacy, err = inOrder(in.Entries, func(id, text string) (CPUEntry, error) {
		set, err := f.cpus("entries["+id+"]", text)
		return CPUEntry{Container: id, CPUs: set}, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// cpuState sets the fields of out from a file with a valid checksum.
func (f file) cpuState(in *cpuFile, out *CPUState) (err error) {
	out.Policy = in.PolicyName
	if out.Shared, err = f.cpus("defaultCpuSet", in.DefaultCPUSet); err != nil {
		return err
	}
	out.Entries, err = byContainer(in.Entries, func(uid, container, text string) (CPUEntry, error) {
		set, err := f.cpus(fmt.Sprintf("entries[%s][%s]", uid, container), text)
		return CPUEntry{uid, container, set}, err
	})
	if err != nil {
		return err
	}
	out.PodEntries, err = inOrder(in.PodEntries, func(uid string, e podCPUEntry) (CPUEntry, error) {
		set, err := f.cpus("podEntries["+uid+"]", e.CPUSet)
		return CPUEntry{PodUID: uid, CPUs: set}, err
	})
	return err
}

// inOrder reads the values of a map in the order of its keys.
func inOrder[K cmp.Ordered, V, E any](in map[K]V, read func(K, V) (E, error)) (out []E, err error) {
	for _, key := range slices.Sorted(maps.Keys(in)) {
		e, err := read(key, in[key])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// byContainer reads the containers' entries, by pod and then by name.
func byContainer[V, E any](in map[string]map[string]V, read func(uid, container string, v V) (E, error)) ([]E, error) {
	pods, err := inOrder(in, func(uid string, containers map[string]V) ([]E, error) {
		return inOrder(containers, func(container string, v V) (E, error) { return read(uid, container, v) })
	})
	return slices.Concat(pods...), err
}

// Check returns an error if a CPU is both shared and exclusive, or exclusive to two pods, or if the
// policy static has exclusive CPUs but no shared CPUs. It accepts CPUs that are neither shared nor
// exclusive, because a checkpoint may have such CPUs while the kubelet allocates. If a checkpoint
// gives two pods the same CPUs, the kubelet still starts, and both pods run on these CPUs.
// Containers of one pod may have the same CPUs, because later containers reuse the CPUs of init
// containers. Check treats the CPUs of a pod as a whole like the CPUs of a container. The error is
// an *Error.
func (s *CPUState) Check(name string) error {
	f := file(name)
	if s.Policy == "static" && s.Shared.IsEmpty() && len(s.Entries) > 0 {
		return f.err("defaultCpuSet", "", "at least one CPU: a kubelet does not start with an empty set (default cpuset cannot be empty)")
	}
	var taken, own topology.CPUSet
	uid := ""
	all := slices.Concat(s.Entries, s.PodEntries)
	slices.SortStableFunc(all, func(a, b CPUEntry) int { return cmp.Compare(a.PodUID, b.PodUID) })
	for _, e := range append(all, s.Legacy...) {
		field := fmt.Sprintf("entries[%s][%s]", e.PodUID, e.Container)
		if e.Container == "" {
			field = "podEntries[" + e.PodUID + "]"
		}
		if e.PodUID != uid || uid == "" {
			taken, own, uid = taken.Or(&own), topology.CPUSet{}, e.PodUID
		}
		if e.CPUs.Intersects(&s.Shared) {
			return f.err(field, e.CPUs, "CPUs that are not also in defaultCpuSet")
		}
		if e.CPUs.Intersects(&taken) {
			return f.err(field, e.CPUs, "CPUs that no other pod holds")
		}
		own = own.Or(&e.CPUs)
	}
	return nil
}

func (f file) cpus(field, list string) (topology.CPUSet, error) {
	set, err := topology.ParseCPUList(list)
	if err != nil {
		return set, f.err(field, list, "a CPU list: "+err.Error())
	}
	return set, nil
}

// decode refuses unknown fields, because an unknown field might contain an allocation.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errEmpty
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	end := d.InputOffset()
	if _, err := d.Token(); err != io.EOF { // More would overlook a surplus bracket
		return fmt.Errorf("unexpected data after the JSON value, which ends at offset %d", end)
	}
	return nil
}

// cpuTypeName is the name that each release of the kubelet gives the type of its newest format.
const cpuTypeName = "CPUManagerCheckpoint"

// sumCPUv1 returns the checksum of a checkpoint whose keys are container ids (before Kubernetes
// 1.17).
func sumCPUv1(c *cpuV1) uint32 {
	d := dumpCPUHead(cpuTypeName, c.PolicyName, c.DefaultCPUSet)
	d.field("Entries", "map[string]string")
	dumpMap(d, c.Entries, d.text, d.text)
	d.end()
	return d.sum()
}

// podDump is the field for pod-level assignments in a dump.
type podDump map[string][]int

// mostDumped is the maximum number of CPUs in a dump. No kubelet assigns so many.
const mostDumped = 1 << 18

// dumped lists the CPUs of each pod. It returns false if there are more than mostDumped.
func (p podCPUs) dumped() (out podDump, ok bool) {
	if p == nil {
		return nil, true
	}
	out, room := podDump{}, mostDumped
	for uid, e := range p {
		out[uid] = []int{}
		for _, r := range e.cpus {
			if r.last-r.first >= room {
				return nil, false
			}
			room -= r.last - r.first + 1
			for id := r.first; id <= r.last; id++ {
				out[uid] = append(out[uid], id)
			}
		}
	}
	return out, true
}

// sumCPU returns the checksum of a checkpoint whose type has the given name in the kubelet. The
// argument pods is nil if the type has no pod-level assignments.
func sumCPU(typ, policy, cpus string, entries map[string]map[string]string, pods *podDump) uint32 {
	d := dumpCPUHead(typ, policy, cpus)
	d.field("Entries", "map[string]map[string]string")
	dumpMap(d, entries, d.text, func(m map[string]string) { dumpMap(d, m, d.text, d.text) })
	if pods != nil {
		d.field("PodEntries", "state.PodCPUAssignments")
		dumpMap(d, *pods, d.text, d.podCPUs)
	}
	d.end()
	return d.sum()
}

func dumpCPUHead(typ, policy, cpus string) *dump {
	d := newDump("(*state." + typ + "){")
	d.str("PolicyName", policy)
	d.str("DefaultCPUSet", cpus)
	return d
}

// podCPUs writes a state.PodEntry, whose set is a k8s.io/utils/cpuset.CPUSet.
func (d *dump) podCPUs(cpus []int) {
	d.text("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map")
	list(d, cpus, func(id int) {
		d.number(id)
		d.text(":{}")
	})
	d.text("}}")
}
