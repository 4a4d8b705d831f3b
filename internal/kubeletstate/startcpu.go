package kubeletstate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
)

// The formats of a cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go).
type (
	cpuV1 struct {
		PolicyName    string            `json:"policyName"`
		DefaultCPUSet string            `json:"defaultCpuSet"`
		Entries       map[string]string `json:"entries,omitempty"`
		Checksum      checksumValue     `json:"checksum"`
	}
	cpuV2 struct {
		PolicyName    string                       `json:"policyName"`
		DefaultCPUSet string                       `json:"defaultCpuSet"`
		Entries       map[string]map[string]string `json:"entries,omitempty"`
		Checksum      checksumValue                `json:"checksum"`
	}
	cpuV3 struct {
		PolicyName    string                       `json:"policyName"`
		DefaultCPUSet string                       `json:"defaultCpuSet"`
		Entries       map[string]map[string]string `json:"entries,omitempty"`
		PodEntries    podCPUs                      `json:"podEntries,omitempty"`
		Checksum      checksumValue                `json:"checksum"`
	}
	// cpuV4 contains V2 for older kubelets. A kubelet that knows this format reads Data.
	cpuV4 struct {
		cpuV2
		Data         string        `json:"data"`
		DataChecksum checksumValue `json:"dataChecksum"`
	}
	cpuV4Data struct {
		PolicyName    string                             `json:"policyName"`
		DefaultCPUSet string                             `json:"defaultCpuSet"`
		Entries       map[string]map[string]string       `json:"entries,omitempty"`
		PodEntries    podCPUs                            `json:"podEntries,omitempty"`
		Baselines     map[string]map[string]cpuBaselines `json:"baselines,omitempty"`
	}
	cpuBaselines struct {
		Baseline string `json:"baseline"`
	}
	podCPUs      map[string]podCPUSet
	podCPUSet    struct{ cpus cpuRanges }
	podEntryJSON struct {
		CPUSet string `json:"cpuSet,omitempty"`
	}
	checksumValue uint64
)

// UnmarshalJSON does what the kubelet's state.PodEntry.UnmarshalJSON does.
func (p *podCPUSet) UnmarshalJSON(b []byte) (err error) {
	var entry podEntryJSON
	if err := json.Unmarshal(b, &entry); err != nil {
		return err
	}
	if p.cpus, err = parseRanges(entry.CPUSet); err != nil {
		return fmt.Errorf("failed to parse cpuset: %w", err)
	}
	return nil
}

var cpuTypes = typeNames{
	"cpuV1": "state.CPUManagerCheckpointV1", "cpuV2": "state.CPUManagerCheckpointV2",
	"cpuV3": "state.CPUManagerCheckpointV3", "cpuV4": "state.CPUManagerCheckpoint",
	"cpuV4Data": "state.CPUManagerCheckpointData", "cpuBaselines": "state.ContainerCPUs",
	"podCPUs": "state.PodCPUAssignments", "podCPUSet": "state.PodEntry", "podEntryJSON": "state.podEntryJSON",
	"checksumValue": "checksum.Checksum",
}

// cpuTypesUntil135 are the type names of the releases with two formats.
var cpuTypesUntil135 = cpuTypes.but("cpuV2", "state."+cpuTypeName)

// cpuBook is the content that a CPU manager loads from its checkpoint.
type cpuBook struct {
	policy, shared string
	entries        map[string]map[string]string
	pods           podCPUs // pod-level assignments; only for a manager that knows them
}

// StartCPU returns a *StartError if the CPU manager does not start with this cpu_manager_state in
// root. If data is nil, there is no file.
func StartCPU(s *placement.Startup, root string, data []byte) error {
	if data == nil {
		return nil // the kubelet writes a new file
	}
	book, err := readCPU(s, data)
	if err != nil {
		return restoreError(root, CPUFile, "CPU", err)
	}
	shared, held, err := book.restore(s)
	if err != nil {
		return restoreError(root, CPUFile, "CPU", err)
	}
	if s.CPUPolicy != "static" {
		return nil
	}
	if s.PodLevel {
		held.whole = book.pods
	}
	if err := validateCPUs(s, shared, held); err != nil {
		return invalid(root, CPUFile, err)
	}
	return nil
}

// readCPU loads and migrates a checkpoint, which differs between releases
// (pkg/kubelet/cm/cpumanager/state/state_checkpoint.go).
func readCPU(s *placement.Startup, data []byte) (*cpuBook, error) {
	switch {
	case s.Version <= placement.V135:
		old, err := readCPUv1(data)
		if err != nil {
			return readCPUv2(data, cpuTypesUntil135, cpuSums{own: true})
		}
		return migrateCPU(old, "error migrating v1 checkpoint state to v2 checkpoint state: ")
	case s.Version == placement.V136 && s.PodLevel:
		book, err := readCPUv3(data, []string{cpuTypeName})
		if err == nil {
			return book, nil
		}
		pods := book.pods // the kubelet keeps what it has read before the error
		if book, err = readCPUv2or1(data, cpuSums{}); err == nil {
			book.pods = pods
		}
		return book, err
	case s.Version == placement.V136:
		return readCPUv2or1(data, cpuSums{own: true})
	}
	return readCPUv4(data, cpuSums{own: !s.PodLevel})
}

// cpuSums defines which checksums a release accepts for V2. Every release accepts checksums that
// are computed with the type name cpuTypeName. If the field own is true, the release also accepts
// checksums with its own name for the type.
type cpuSums struct{ own bool }

// readCPUv2or1 does what loadAndMigrateCheckpointV2 of Kubernetes 1.36 does.
func readCPUv2or1(data []byte, accepts cpuSums) (*cpuBook, error) {
	book, err := readCPUv2(data, cpuTypes, accepts)
	if err == nil {
		return book, nil
	}
	old, err := readCPUv1(data)
	if err != nil {
		return nil, err
	}
	return migrateCPU(old, "failed to migrate checkpoint from v1 to v2: ")
}

func readCPUv1(data []byte) (*cpuV1, error) {
	in := cpuV1{Entries: map[string]string{}}
	if err := unmarshal(data, &in, cpuTypes); err != nil {
		return nil, err
	}
	if in.Checksum != 0 && in.Checksum != checksumValue(sumCPUv1(&in)) {
		return nil, errCorrupted
	}
	return &in, nil
}

// migrateCPU loads a file with container ids. Like the kubelet, it returns an error if the file has
// entries: none of these containers still runs, because the file is from before Kubernetes 1.17.
func migrateCPU(in *cpuV1, failed string) (*cpuBook, error) {
	unknown := &randomWords{}
	for _, id := range slices.Sorted(maps.Keys(in.Entries)) {
		unknown.add(fmt.Errorf("%scontainerID '%s' not found in initial containers list", failed, id))
	}
	return &cpuBook{policy: in.PolicyName, shared: in.DefaultCPUSet}, unknown.err()
}

func readCPUv2(data []byte, names typeNames, accepts cpuSums) (*cpuBook, error) {
	in := cpuV2{Entries: map[string]map[string]string{}}
	if err := unmarshal(data, &in, names); err != nil {
		return nil, err
	}
	sum := func(name string) checksumValue {
		return checksumValue(sumCPU(name, in.PolicyName, in.DefaultCPUSet, in.Entries, nil))
	}
	if in.Checksum != 0 && in.Checksum != sum(cpuTypeName) && !(accepts.own && in.Checksum == sum(names.bare("cpuV2"))) {
		return nil, errCorrupted
	}
	return &cpuBook{in.PolicyName, in.DefaultCPUSet, in.Entries, nil}, nil
}

// readCPUv3 accepts a checksum that is computed with any of the given type names. It returns the
// parts that it could read even if there is an error.
func readCPUv3(data []byte, names []string) (*cpuBook, error) {
	in := cpuV3{Entries: map[string]map[string]string{}, PodEntries: podCPUs{}}
	err := unmarshal(data, &in, cpuTypes)
	book := &cpuBook{in.PolicyName, in.DefaultCPUSet, in.Entries, in.PodEntries}
	if err != nil {
		return book, err
	}
	dumped, ok := in.PodEntries.dumped()
	sum := func(name string) checksumValue {
		return checksumValue(sumCPU(name, in.PolicyName, in.DefaultCPUSet, in.Entries, &dumped))
	}
	if !ok || !slices.ContainsFunc(names, func(name string) bool { return in.Checksum == sum(name) }) {
		return book, errCorrupted
	}
	return book, nil
}

// readCPUv4 falls back to V3 and V2, unless the file has fields of V4.
func readCPUv4(data []byte, accepts cpuSums) (*cpuBook, error) {
	in := cpuV4{cpuV2: cpuV2{Entries: map[string]map[string]string{}}}
	inner := cpuV4Data{Entries: map[string]map[string]string{}, PodEntries: podCPUs{}, Baselines: map[string]map[string]cpuBaselines{}}
	err := readData(data, &in, cpuTypes, "cpu manager checkpoint", func() error { return unmarshal([]byte(in.Data), &inner, cpuTypes) })
	if err == nil && in.DataChecksum != checksumValue(sumText(in.Data)) {
		err = errCorrupted
	}
	switch {
	case err == nil:
		return &cpuBook{inner.PolicyName, inner.DefaultCPUSet, inner.Entries, inner.PodEntries}, nil
	case in.Data != "" || in.DataChecksum != 0:
		return nil, fmt.Errorf("could not load v4 checkpoint: %w", err)
	}
	if book, err := readCPUv3(data, []string{"CPUManagerCheckpointV3", cpuTypeName}); err == nil {
		return book, nil
	}
	return readCPUv2(data, cpuTypes, accepts)
}

// readData reads the outer and the inner JSON of Kubernetes 1.37.
func readData(data []byte, into any, names typeNames, what string, inner func() error) error {
	if err := unmarshal(data, into, names); err != nil {
		return fmt.Errorf("failed to deserialize %s: %w", what, err)
	}
	if err := inner(); err != nil {
		return fmt.Errorf("failed to deserialize %s data: %w", what, err)
	}
	return nil
}

// cpuHolders are the containers with exclusive CPUs. pods counts their pods, and also pods whose
// list of containers is empty.
type cpuHolders struct {
	pods  int
	all   []heldCPUs
	whole podCPUs // pod-level assignments
}

type heldCPUs struct {
	pod, container string
	cpus           cpuRanges
}

// restore does what the second half of the kubelet's restoreState does.
func (b *cpuBook) restore(s *placement.Startup) (shared cpuRanges, held cpuHolders, err error) {
	if s.CPUPolicy != b.policy {
		return nil, held, fmt.Errorf("configured policy %q differs from state checkpoint policy %q", s.CPUPolicy, b.policy)
	}
	if shared, err = parseRanges(b.shared); err != nil {
		cpu := "cpu"
		if s.Version >= placement.V137 {
			cpu = "CPU"
		}
		return nil, held, fmt.Errorf("could not parse default %s set %q: %w", cpu, b.shared, err)
	}
	wrong := &randomWords{}
	held.pods = len(b.entries)
	for _, pod := range slices.Sorted(maps.Keys(b.entries)) {
		for _, container := range slices.Sorted(maps.Keys(b.entries[pod])) {
			text := b.entries[pod][container]
			cpus, err := parseRanges(text)
			if err != nil {
				wrong.add(fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, container, pod, err))
			}
			held.all = append(held.all, heldCPUs{pod, container, cpus})
		}
	}
	return shared, held, wrong.err()
}

// validateCPUs implements validateState of pkg/kubelet/cm/cpumanager/policy_static.go. It accepts
// containers with the same CPUs, in one pod or in two.
func validateCPUs(s *placement.Startup, shared cpuRanges, held cpuHolders) error {
	all, reserved := rangesOf(s.CPUs), rangesOf(s.Reserved)
	if len(shared) == 0 {
		if held.pods > 0 {
			return errors.New("default cpuset cannot be empty")
		}
		return nil
	}
	both := reserved.and(shared)
	switch {
	case s.StrictReservation && len(both) > 0:
		return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", both, shared)
	case !s.StrictReservation && !slices.Equal(both, reserved):
		apart := len(both) == 0 && !slices.ContainsFunc(held.all, func(h heldCPUs) bool { return len(h.cpus.and(reserved)) > 0 })
		return &lacksReserved{reserved, shared, apart}
	}
	overlaps := &randomWords{}
	known := slices.Clone(shared)
	for i := range held.all {
		h := &held.all[i]
		if !overlaps.full() && len(h.cpus.and(shared)) > 0 {
			overlaps.add(fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", h.pod, h.container, h.cpus, shared))
		}
		known = append(known, h.cpus...)
	}
	for _, p := range held.whole {
		known = append(known, p.cpus...)
	}
	if known = known.merged(); !slices.Equal(known, all) {
		return cmp.Or(overlaps.err(), error(&otherCPUs{all, known}))
	}
	return overlaps.err()
}

// lacksReserved means that the shared CPUs in the file lack reserved CPUs.
type lacksReserved struct {
	reserved, shared cpuRanges
	// apart means that the file has none of the reserved CPUs. A kubelet of OpenShift with workload
	// partitioning writes such a file, and starts with it.
	apart bool
}

func (e *lacksReserved) Error() string {
	return fmt.Sprintf("not all reserved cpus: %q are present in defaultCpuSet: %q", e.reserved, e.shared)
}

func (e *lacksReserved) detail() string {
	if !e.apart {
		return ""
	}
	return "with OpenShift's workload partitioning the file is right: add cpuManagerPolicyOptions strict-cpu-reservation to the configuration, which means the same"
}

// otherCPUs means that the CPUs of the machine differ from the CPUs in the file.
type otherCPUs struct{ machine, file cpuRanges }

func (e *otherCPUs) Error() string {
	return fmt.Sprintf("current set of available CPUs %q doesn't match with CPUs in state %q", e.machine, e.file)
}

// detail describes the difference, which is hard to see among hundreds of CPUs.
func (e *otherCPUs) detail() string {
	var out []string
	if lacks := e.machine.without(e.file); len(lacks) > 0 {
		out = append(out, fmt.Sprintf("the file lacks CPUs %s", lacks))
	}
	if more := e.file.without(e.machine); len(more) > 0 {
		out = append(out, fmt.Sprintf("the machine has no CPUs %s", more))
	}
	return strings.Join(out, ", ")
}
