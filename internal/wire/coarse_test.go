package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

const writtenSecond = 1_760_000_000

// bound returns a pod of namespace d that the kubelet started after seconds after the report was
// written.
func bound(name string, after int) BoundPod {
	return BoundPod{UID: "uid-" + name, PodName: PodName{"d", name}, Started: time.Unix(writtenSecond+int64(after), 0), Exclusive: true}
}

// pending returns a pod that the kubelet has not started.
func pending(name string) BoundPod {
	p := bound(name, 0)
	p.Started = time.Time{}
	return p
}

// stateOf builds the engine's state from a coarse report.
func stateOf(t *testing.T, n *Node) (*placement.Model, *placement.State) {
	t.Helper()
	m := made.ModelOf(t, n.Spec.View, n.Spec.Config)
	s, err := m.StateOf(&n.Report.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

func numatopologyOf(t *testing.T, spec string) *nodeinfo.Numatopology {
	t.Helper()
	out := &nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Generation: 7, Annotations: map[string]string{nodeinfo.TimestampAnnotation: fmt.Sprint(writtenSecond)},
	}}
	if err := yaml.UnmarshalStrict([]byte(spec), &out.Spec); err != nil {
		t.Fatal(err)
	}
	return out
}

// eight is a machine of two sockets of four CPUs, whose core ids are equal.
const eight = `
resReserved: {cpu: "1"}
cpuDetail: {"0": {}, "1": {core: 1}, "2": {core: 2}, "3": {core: 3}, "4": {numa: 1, socket: 1},
  "5": {numa: 1, socket: 1, core: 1}, "6": {numa: 1, socket: 1, core: 2}, "7": {numa: 1, socket: 1, core: 3}}
policies: {CPUManagerPolicy: static, TopologyManagerPolicy: single-numa-node}
`

func podsIn(n *Node) string {
	var uids []string
	for _, p := range n.Report.Snapshot.Pods {
		uids = append(uids, p.UID)
	}
	return strings.Join(uids, " ")
}

// TestNumatopologyNamesPods: exporters since v1.16 report the pods of the CPUs.
func TestNumatopologyNamesPods(t *testing.T) {
	nt := numatopologyOf(t, eight+`
numares: {cpu: {allocatable: "0-2,6-7", capacity: 8}}
podAllocations:
- {name: a, namespace: d, containerAllocations: [{name: c, allocations: {cpu: "4-5"}}]}
- {uid: gone, containerAllocations: [{name: c, allocations: {cpu: "3"}}]}
`)
	n, err := ReadNumatopology(nt, &Beside{Pods: []BoundPod{bound("a", 5), bound("b", 5)}, KubeletVersion: "v1.35.2"})
	if err != nil {
		t.Fatal(err)
	}
	m, s := stateOf(t, &n)
	if got := podsIn(&n); got != "uid-a "+Others {
		t.Errorf("listed: %s", got)
	}
	if cpus := s.SharedCPUs(); cpus.String() != "0-2,6-7" || m.Version() != 35 || n.Report.Sequence != 7 {
		t.Errorf("shared %s, version %d, sequence %d", cpus, m.Version(), n.Report.Sequence)
	}
	r := placement.Request{UID: "x", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 2000}}}
	var d placement.Decision
	if v := placement.Decide(s, &r, &d); !v.OK() || d.Containers[0].CPUs.String() != "1-2" {
		t.Errorf("two CPUs: %+v on %s, want the first with two free, CPU 0 reserved", v, d.Containers[0].CPUs)
	}
	r.Containers[0].MilliCPU = 3000
	if v := placement.Admit(s, &r); v.OK() {
		t.Errorf("three CPUs on one NUMA node: %+v", v)
	}
}

// TestSuccessorIsNotItsPredecessor: a record without a UID does not belong to a pod of the same
// name that the kubelet has not started yet.
func TestSuccessorIsNotItsPredecessor(t *testing.T) {
	nt := numatopologyOf(t, eight+`
numares: {cpu: {allocatable: "0-3,6-7", capacity: 8}}
podAllocations: [{name: a, namespace: d, containerAllocations: [{name: c, allocations: {cpu: "4-5"}}]}]
`)
	n, err := ReadNumatopology(nt, &Beside{Pods: []BoundPod{pending("a")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := podsIn(&n); got != Others {
		t.Errorf("listed: %s", got)
	}
}

// TestNumatopologyOfOlderExporters: exporters before v1.16 do not name pods, so that their start
// times decide.
func TestNumatopologyOfOlderExporters(t *testing.T) {
	nt := numatopologyOf(t, eight+`numares: {cpu: {allocatable: "0-3,6-7", capacity: 8}}`)
	n, err := ReadNumatopology(nt, &Beside{Pods: []BoundPod{bound("before", -3), bound("same", 0), bound("after", 1), pending("p")}})
	if err != nil {
		t.Fatal(err)
	}
	stateOf(t, &n)
	if got, want := podsIn(&n), "uid-before uid-same "+Others; got != want {
		t.Errorf("listed: %s, want %s", got, want)
	}
}

// TestNumatopologyOfVirtualMachine has the form of a real one: sixteen CPUs appear as eight sockets
// on one NUMA node, and the kubelet's configuration has no policy.
func TestNumatopologyOfVirtualMachine(t *testing.T) {
	nt := numatopologyOf(t, `{numares: {cpu: {capacity: 16}}, policies: {CPUManagerPolicy: "", TopologyManagerPolicy: ""}}`)
	nt.Spec.CPUDetail = map[string]nodeinfo.CPUInfo{}
	for i := range 16 {
		nt.Spec.CPUDetail[fmt.Sprint(i)] = nodeinfo.CPUInfo{SocketID: i / 2, CoreID: i % 2}
	}
	n, err := ReadNumatopology(nt, &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := stateOf(t, &n)
	if own := m.Rules(); own.Policy != placement.PolicyNone || own.OwnCPUs || len(n.Spec.Machine.Packages) != 8 {
		t.Errorf("rules %+v, machine %s", own, n.Spec.Machine)
	}
}

// TestReservedCPUsThatSomebodyHolds: the exporter does not read reservedSystemCPUs.
func TestReservedCPUsThatSomebodyHolds(t *testing.T) {
	n, err := ReadNumatopology(numatopologyOf(t, eight+`numares: {cpu: {allocatable: "2-7", capacity: 8}}`), &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := stateOf(t, &n); m.ReservedCPUs() != topology.NewCPUSet(2) {
		t.Errorf("reserved %v", m.ReservedCPUs())
	}
}

func TestNumatopologyThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ spec, field string }{
		"no CPUs":               {`{}`, "spec.cpuDetail"},
		"a CPU beyond all":      {`{cpuDetail: {"99999": {}}}`, "spec.cpuDetail[99999]"},
		"a CPU that is no id":   {`{cpuDetail: {"-1": {}}}`, "spec.cpuDetail[-1]"},
		"a CPU written twice":   {`{cpuDetail: {"1": {}, "01": {}}}`, "spec.cpuDetail[01]"},
		"a NUMA node beyond":    {`{cpuDetail: {"0": {numa: 64}}}`, "spec.cpuDetail[0].numa"},
		"a core below zero":     {`{cpuDetail: {"0": {core: -1}}}`, "spec.cpuDetail[0].core"},
		"an unknown policy":     {`{policies: {TopologyManagerPolicy: restrictd}}`, "spec.policies[TopologyManagerPolicy]"},
		"an unknown manager":    {`{policies: {CPUManagerPolicy: Static}}`, "spec.policies[CPUManagerPolicy]"},
		"free CPUs of nobody":   {`{cpuDetail: {"0": {}}, numares: {cpu: {allocatable: "0-3"}}}`, "spec.numares[cpu].allocatable"},
		"nothing free":          {eight, "spec.numares[cpu].allocatable"},
		"no list of CPUs":       {`{cpuDetail: {"0": {}}, numares: {cpu: {allocatable: "zero"}}}`, "spec.numares[cpu].allocatable"},
		"an absurd reservation": {`{cpuDetail: {"0": {}, "1": {}}, policies: {CPUManagerPolicy: static}, numares: {cpu: {allocatable: "0"}}, resReserved: {cpu: 1e30}}`, "spec.resReserved[cpu]"},
	} {
		_, err := ReadNumatopology(numatopologyOf(t, c.spec), &Beside{})
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: %v, want a word about %s", name, err, c.field)
		}
	}
	twice := numatopologyOf(t, eight+`
numares: {cpu: {allocatable: "0-3", capacity: 8}}
podAllocations:
- {uid: uid-a, containerAllocations: [{name: c, allocations: {cpu: "4-5"}}]}
- {uid: uid-b, containerAllocations: [{name: c, allocations: {cpu: "5-6"}}]}
`)
	if _, err := ReadNumatopology(twice, &Beside{Pods: []BoundPod{bound("a", 0), bound("b", 0)}}); err == nil {
		t.Error("two pods hold CPU 5")
	}
}

func nrtOf(t testing.TB, text string) *nrt.NodeResourceTopology {
	t.Helper()
	out := &nrt.NodeResourceTopology{}
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	out.Name, out.CreationTimestamp = "n", metav1.Unix(writtenSecond, 0)
	return out
}

// TestZones reads the amounts of CPUs, memory, huge pages and devices of two zones.
func TestZones(t *testing.T) {
	o := nrtOf(t, `
attributes: [{name: topologyManagerPolicy, value: restricted}, {name: topologyManagerScope, value: pod}]
zones:
- {name: node-1, type: Node, costs: [{name: node-0, value: 21}, {name: node-1, value: 10}], resources: [
    {name: cpu, capacity: "8", allocatable: "8", available: "5"}, {name: memory, capacity: 9Gi, allocatable: 8Gi, available: 8Gi},
    {name: example.com/gpu, capacity: "2", allocatable: "2", available: "1"}]}
- {name: node-0, type: Node, costs: [{name: node-0, value: 10}, {name: node-1, value: 21}], resources: [
    {name: cpu, capacity: "8", allocatable: "6", available: "6"}, {name: memory, capacity: 9Gi, allocatable: 8Gi, available: 4Gi},
    {name: hugepages-2Mi, capacity: 64Mi, allocatable: 64Mi, available: 32Mi}]}
- {name: cache-0, type: Cache, resources: [{name: whatever, capacity: "1", allocatable: "1", available: "1"}]}
`)
	n, err := ReadNodeResourceTopology(o, &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	m, s := stateOf(t, &n)
	if own := m.Rules(); own.Policy != placement.PolicyRestricted || own.Scope != placement.PodScope || !own.OwnCPUs {
		t.Errorf("rules %+v", own)
	}
	ask := func(cpus int64, memory uint64, gpus int64) placement.Verdict {
		c := placement.ContainerRequest{Name: "c", MilliCPU: cpus * 1000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: memory}}}
		if gpus > 0 {
			c.Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: gpus}}
		}
		return placement.Admit(s, &placement.Request{UID: "x", Guaranteed: true, Containers: []placement.ContainerRequest{c}})
	}
	for name, c := range map[string]struct {
		v    placement.Verdict
		want bool
	}{
		"six CPUs and the free memory of node 0": {ask(6, 4<<30, 0), true},
		"the memory of node 1 with CPUs of it":   {ask(5, 8<<30, 0), true},
		"more CPUs than either has free":         {ask(7, 1<<30, 0), false},
		"CPUs of node 0 and memory of node 1":    {ask(6, 5<<30, 0), false},
		"the device that is left":                {ask(5, 1<<30, 1), true},
		"two devices":                            {ask(1, 1<<30, 2), false},
	} {
		if c.v.OK() != c.want {
			t.Errorf("%s: %+v", name, c.v)
		}
	}
	if d := n.Spec.Machine.NUMANodes[0].Distances; len(d) != 2 || d[1] != 21 {
		t.Errorf("distances %v", d)
	}
}

// TestOthersWriteIntoReports: a report is as old as its data about resources in use. If another
// client writes other fields, the report does not become newer.
func TestOthersWriteIntoReports(t *testing.T) {
	entry := func(after int64, fields string) metav1.ManagedFieldsEntry {
		at := metav1.Unix(writtenSecond+after, 0)
		e := metav1.ManagedFieldsEntry{Manager: "m", Time: &at}
		if fields != "" {
			e.FieldsV1 = metav1.NewFieldsV1(fields)
		}
		return e
	}
	const zones, spec = `{"f:attributes":{},"f:zones":{}}`, `{"f:spec":{"f:numares":{".":{},"f:cpu":{}}}}`
	const pods, note = `{"f:metadata":{"f:annotations":{"f:node.koordinator.sh/pod-cpu-allocs":{}}}}`, `{"f:metadata":{"f:annotations":{"f:example.com/note":{}}}}`
	plain := func() metav1.Object {
		return nrtOf(t, `
attributes: [{name: topologyManagerPolicy, value: restricted}, {name: topologyManagerScope, value: pod}]
zones: [{name: node-0, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 8, available: 8}]}]`)
	}
	koordlets := func() metav1.Object { return koordletObject(t, map[string]string{koordletPods: "[]"}) }
	volcanos := func() metav1.Object {
		o := numatopologyOf(t, eight+`numares: {cpu: {allocatable: "0-7", capacity: 8}}`)
		o.Annotations, o.CreationTimestamp = nil, metav1.Unix(writtenSecond, 0)
		return o
	}
	b := &Beside{Pods: []BoundPod{bound("old", 0), bound("young", 50), bound("new", 150)}}
	for name, c := range map[string]struct {
		object  metav1.Object
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"zones, and a note":        {plain(), []metav1.ManagedFieldsEntry{entry(10, zones), entry(100, note)}, "uid-old"},
		"a note, and zones":        {plain(), []metav1.ManagedFieldsEntry{entry(10, note), entry(100, zones)}, "uid-old uid-young"},
		"two who write zones":      {plain(), []metav1.ManagedFieldsEntry{entry(100, zones), entry(10, zones)}, "uid-old uid-young"},
		"a note alone":             {plain(), []metav1.ManagedFieldsEntry{entry(100, note)}, "uid-old"},
		"who does not tell":        {plain(), []metav1.ManagedFieldsEntry{entry(10, zones), entry(100, "")}, "uid-old uid-young"},
		"koordlet's pods":          {koordlets(), []metav1.ManagedFieldsEntry{entry(10, pods), entry(100, zones)}, "uid-old"},
		"koordlet's pods, younger": {koordlets(), []metav1.ManagedFieldsEntry{entry(100, pods), entry(10, zones)}, "uid-old uid-young"},
		"Volcano's":                {volcanos(), []metav1.ManagedFieldsEntry{entry(10, spec), entry(100, note)}, "uid-old"},
	} {
		c.object.SetManagedFields(c.entries)
		var n Node
		var err error
		switch o := c.object.(type) {
		case *nrt.NodeResourceTopology:
			n, err = ReadNodeResourceTopology(o, b)
		case *nodeinfo.Numatopology:
			n, err = ReadNumatopology(o, b)
		}
		if got := strings.TrimSuffix(podsIn(&n), " "+Others); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestWhoseClockCounts: the time of an exporter comes from the kubelet's clock. Without it, the API
// server's clock decides, and a pod that was bound after that time does not count.
func TestWhoseClockCounts(t *testing.T) {
	for said, want := range map[string]string{fmt.Sprint(writtenSecond): "uid-old", "": ""} {
		o, old := numatopologyOf(t, eight+`numares: {cpu: {allocatable: "0-7", capacity: 8}}`), bound("old", -10)
		o.Annotations, o.CreationTimestamp = map[string]string{nodeinfo.TimestampAnnotation: said}, metav1.Unix(writtenSecond, 0)
		old.Bound = time.Unix(writtenSecond+1, 0)
		n, err := ReadNumatopology(o, &Beside{Pods: []BoundPod{old}})
		if got := strings.TrimSuffix(podsIn(&n), Others); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("written at %q by its exporter: %q is counted, %v; want %q", said, got, err, want)
		}
	}
}

// TestZonesWithoutCPUs: if an exporter reports no CPUs, their number is unknown, not zero.
func TestZonesWithoutCPUs(t *testing.T) {
	n, err := ReadNodeResourceTopology(nrtOf(t, `
topologyPolicies: [SingleNUMANodeContainerLevel]
zones:
- {name: node-0, type: Node, resources: [{name: example.com/d, capacity: 10, allocatable: 10, available: 7}]}
- {name: node-1, type: Node, resources: [{name: example.com/d, capacity: 10, allocatable: 10, available: 10}]}
`), &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	_, s := stateOf(t, &n)
	for devices, want := range map[int64]bool{7: true, 10: true, 11: false} {
		r := placement.Request{UID: "x", Guaranteed: true, Containers: []placement.ContainerRequest{
			{Name: "c", MilliCPU: 64_000, Devices: []placement.DeviceRequest{{Resource: "example.com/d", Count: devices}}},
		}}
		if v := placement.Admit(s, &r); v.OK() != want {
			t.Errorf("64 CPUs and %d devices: %+v", devices, v)
		}
	}
}

// TestManyZones: a kubelet that runs on more than eight NUMA nodes allows them with an option that
// no exporter writes.
func TestManyZones(t *testing.T) {
	text := "attributes: [{name: topologyManagerPolicy, value: single-numa-node}]\nzones:\n"
	for i := range 16 {
		text += fmt.Sprintf("- {name: node-%d, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 7, available: %d}]}\n", i, i%8)
	}
	n, err := ReadNodeResourceTopology(nrtOf(t, text), &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	_, s := stateOf(t, &n)
	for cpus, want := range map[int64]bool{7: true, 8: false} {
		r := placement.Request{UID: "x", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: cpus * 1000}}}
		if v := placement.Admit(s, &r); v.OK() != want {
			t.Errorf("%d CPUs: %+v", cpus, v)
		}
	}
}

func TestZonesThatCannotBe(t *testing.T) {
	const head = "attributes: [{name: topologyManagerPolicy, value: none}]\nzones: "
	cpus := func(capacity, allocatable, available string) string {
		return head + fmt.Sprintf(`[{name: node-0, type: Node, resources: [{name: cpu, capacity: %s, allocatable: %s, available: %s}]}]`, capacity, allocatable, available)
	}
	for name, c := range map[string]struct{ text, field string }{
		"below zero":            {cpus("8", "8", `"-1"`), "zones[0].resources[0].available"},
		"absurd":                {cpus("1e18", "1e18", "1e18"), "zones[0].resources[0].capacity"},
		"many":                  {cpus("100000", "100000", "100000"), "zones"},
		"more free than there":  {cpus("8", "8", "9"), "zones[0].resources[0]"},
		"all handed out":        {cpus("8", "8", "0"), "zones"},
		"no policy":             {`zones: [{name: node-0, type: Node}]`, "attributes[topologyManagerPolicy]"},
		"an unknown scope":      {strings.Replace(head, "value: none}", "value: none}, {name: topologyManagerScope, value: node}", 1) + "[]", "attributes[topologyManagerScope]"},
		"an unknown policy":     {strings.Replace(head, "none", "strict", 1) + "[]", "attributes[topologyManagerPolicy]"},
		"an unknown old policy": {`{topologyPolicies: [Strict], zones: []}`, "topologyPolicies[0]"},
		"no zones":              {head + "[]", "zones"},
		"zones of others":       {head + "[{name: fake-name, type: fake-type}]", "zones"},
		"a name of another":     {head + "[{name: numa0, type: Node}]", "zones[0].name"},
		"one zone twice":        {head + "[{name: node-0, type: Node}, {name: node-0, type: Node}]", "zones[1].name"},
		"devices by the byte":   {head + "[{name: node-0, type: Node, resources: [{name: sgx.intel.com/epc, capacity: 1Gi, allocatable: 1Gi, available: 1Gi}]}]", "zones[0].resources[sgx.intel.com/epc]"},
	} {
		_, err := ReadNodeResourceTopology(nrtOf(t, c.text), &Beside{})
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: %v, want a word about %s", name, err, c.field)
		}
	}
}

// TestFingerprint: the fingerprint covers the pods that the object counts. It may lack the newest
// ones.
func TestFingerprint(t *testing.T) {
	pods := []BoundPod{pending("new"), bound("a", -9), bound("c", 4), bound("b", -5)}
	other := bound("other", -7)
	other.Exclusive = false
	pods = append(pods, other)
	object := func(method string, names ...string) *nrt.NodeResourceTopology {
		var all []PodName
		for _, name := range names {
			all = append(all, PodName{"d", name})
		}
		return &nrt.NodeResourceTopology{Attributes: nrt.AttributeList{
			{Name: nrtFingerprint, Value: PodFingerprint(all)}, {Name: nrtFingerprintMethod, Value: method},
		}}
	}
	for name, c := range map[string]struct {
		o    *nrt.NodeResourceTopology
		want string
	}{
		"all that run":          {object("", "a", "b", "c", "other"), "a other b c"},
		"all but the last":      {object("", "a", "b", "other"), "a other b"},
		"exclusive ones alone":  {object(withExclusive, "a", "b"), "a b"},
		"of pods that are gone": {object("", "a", "z"), "a b other"},
		"none":                  {object(""), ""},
		"without":               {&nrt.NodeResourceTopology{}, "a b other"},
	} {
		var got []string
		for _, p := range counted(c.o, pods, time.Unix(writtenSecond, 0)) {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: counted %q, want %q", name, got, c.want)
		}
	}
}

// TestOwnObjectsAreUnderstood: objects that Berth's agent writes for other readers can be read
// here.
func TestOwnObjectsAreUnderstood(t *testing.T) {
	n, err := ReadNumatopology(numatopologyOf(t, eight+`numares: {cpu: {allocatable: "0-3,6-7", capacity: 8}}`), &Beside{})
	if err != nil {
		t.Fatal(err)
	}
	o := WriteNodeResourceTopology(&n, []PodName{{"d", "a"}})
	read, err := ReadNodeResourceTopology(o, &Beside{Pods: []BoundPod{bound("a", 9)}})
	if err != nil {
		t.Fatal(err)
	}
	_, s := stateOf(t, &read)
	if cpus := s.SharedCPUs(); cpus.Len() != 6 || podsIn(&read) != "uid-a "+Others {
		t.Errorf("shared %s, listed %s", cpus, podsIn(&read))
	}
}

// TestMalformedReportsAreNamed: an object that does not match its types is an error of that node.
func TestMalformedReportsAreNamed(t *testing.T) {
	_, zones := ReadNodeResourceTopology(&nrt.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Malformed: "zones[0]: wrong"}, &Beside{})
	_, exported := ReadNumatopology(&nodeinfo.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Malformed: "spec: wrong"}, &Beside{})
	for _, c := range []struct {
		err  error
		want string
	}{{zones, "NodeResourceTopology n: zones[0]: wrong"}, {exported, "Numatopology n: spec: wrong"}} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

// FuzzReadCoarse: every object is either read completely or refused.
func FuzzReadCoarse(f *testing.F) {
	f.Add([]byte(eight+`numares: {cpu: {allocatable: "0-3,6-7", capacity: 8}}`), []byte(`topologyPolicies: [SingleNUMANodePodLevel]`))
	f.Add([]byte(`{}`), []byte("attributes: [{name: topologyManagerPolicy, value: none}]\n"+
		`zones: [{name: node-0, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 6, available: 6}, {name: memory, capacity: 1, allocatable: 1, available: 0}]}]`))
	f.Fuzz(func(t *testing.T, spec, zones []byte) {
		b := &Beside{Pods: []BoundPod{bound("a", 0)}}
		check := func(n Node, err error) {
			if err != nil {
				return
			}
			m, err := placement.NewModel(n.Spec.View, n.Spec.Config)
			if err != nil {
				return
			}
			if _, err := m.StateOf(&n.Report.Snapshot); err != nil {
				t.Errorf("understood and then not: %v", err)
			}
		}
		var nt nodeinfo.Numatopology
		if yaml.UnmarshalStrict(spec, &nt.Spec) == nil {
			check(ReadNumatopology(&nt, b))
		}
		var o nrt.NodeResourceTopology
		if yaml.UnmarshalStrict(zones, &o) == nil {
			check(ReadNodeResourceTopology(&o, b))
		}
	})
}

// TestWrittenNumatopology: an object of the agent is read back without changes.
func TestWrittenNumatopology(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:4 pu:2 number:interleaved mem:16Gi dist:10,21")
	view := made.View(t, m)
	config := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0,8", TopologyManagerPolicy: "restricted"}
	model := made.ModelOf(t, view, config)
	s := model.NewState()
	r, d := placement.Request{UID: "uid-a", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 4000}}}, placement.Decision{}
	if v := placement.Decide(s, &r, &d); !v.OK() {
		t.Fatal(v)
	}
	s.Commit(&r, &d)
	full := &Node{Name: "n", Spec: NodeSpec{Machine: m, View: view, Config: config}, Report: Report{
		Observed: time.Unix(writtenSecond, 0), Snapshot: s.Snapshot(), Pods: []ReportedPod{{Namespace: "d", Name: "a"}},
	}}
	read, err := ReadNumatopology(WriteNumatopology(full), &Beside{Pods: []BoundPod{bound("a", 0)}})
	if err != nil {
		t.Fatal(err)
	}
	again, state := stateOf(t, &read)
	if state.Snapshot().SharedCPUs != full.Report.Snapshot.SharedCPUs || podsIn(&read) != "uid-a" || read.Spec.Config.TopologyManagerPolicy != "restricted" {
		t.Errorf("read %+v", read.Report)
	}
	if reserved := again.ReservedCPUs(); reserved.Len() != 2 || !read.Report.Observed.Equal(full.Report.Observed) {
		t.Errorf("reserved %v, written %v", reserved, read.Report.Observed)
	}
	for i := range m.NUMANodes {
		if got := read.Spec.Machine.NUMANode(m.NUMANodes[i].ID); got == nil || got.CPUs != m.NUMANodes[i].CPUs {
			t.Errorf("NUMA node %d: %+v", m.NUMANodes[i].ID, got)
		}
	}
	full.Spec.Config = placement.Config{}
	if nt := WriteNumatopology(full); nt.Spec.Policies[nodeinfo.CPUManagerPolicy] != "none" || nt.Spec.Resources["cpu"].Allocatable != "" || nt.Spec.PodAllocations != nil {
		t.Errorf("of a kubelet that pins nothing: %+v", nt.Spec)
	}
}
