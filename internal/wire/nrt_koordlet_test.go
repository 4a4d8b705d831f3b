package wire

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/placement"
)

// detailOf returns the annotation cpu-topology for two sockets with one NUMA node of four cores
// each. As on most machines, the second threads have the numbers after all first threads.
func detailOf() string {
	var cpus []string
	for id := range 16 {
		core := id % 8
		cpus = append(cpus, fmt.Sprintf(`{"id":%d,"core":%d,"socket":%d,"node":%d}`, id, core, core/4, core/4))
	}
	return `{"detail":[` + strings.Join(cpus, ",") + `]}`
}

const (
	poolsText = `[{"socket":0,"node":0,"cpuset":"1-3,9-11"},{"socket":1,"node":1,"cpuset":"6-7,14-15"}]`
	podsText  = `[{"namespace":"d","name":"a","uid":"uid-a","cpuset":"4-5","managedByKubelet":true},{"namespace":"d","name":"gone","uid":"uid-gone","cpuset":"12"}]`
	staticOf0 = `{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0,8"}`
)

// koordletObject returns an object of koordlet, with the annotations of change instead of its own;
// "" removes one.
func koordletObject(t *testing.T, change map[string]string) *nrt.NodeResourceTopology {
	t.Helper()
	o := new(nrt.NodeResourceTopology)
	err := yaml.UnmarshalStrict([]byte(`
topologyPolicies: [SingleNUMANodeContainerLevel]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 8, available: 8}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 8, available: 8}, {name: memory, capacity: 8Gi, allocatable: 8Gi, available: 8Gi}]}
`), o)
	if err != nil {
		t.Fatal(err)
	}
	o.ObjectMeta = metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.Unix(writtenSecond, 0), Annotations: map[string]string{koordletCPUs: detailOf(), koordletShared: poolsText, koordletPods: podsText, koordletPolicy: staticOf0}}
	for key, text := range change {
		if o.Annotations[key] = text; text == "" {
			delete(o.Annotations, key)
		}
	}
	return o
}

// TestKoordletsObject: CPUs have their real ids. Pods that are known have their CPUs, and CPUs of
// other pods belong to Others. Memory is not limited, because koordlet does not report its use.
func TestKoordletsObject(t *testing.T) {
	n, err := ReadNodeResourceTopology(koordletObject(t, nil), &Beside{Pods: []BoundPod{bound("a", 0), bound("b", 0)}})
	if err != nil {
		t.Fatal(err)
	}
	model, s := stateOf(t, &n)
	a, _ := s.Pod("uid-a")
	others, _ := s.Pod(Others)
	free := s.FreeCPUs()
	if a.Containers[0].CPUs.String() != "4-5" || others.Containers[0].CPUs.String() != "12-13" || free.String() != "1-3,6-7,9-11,14-15" || podsIn(&n) != "uid-a uid-b "+Others {
		t.Errorf("a %v, others %v, free %s, listed %s", a, others, free, podsIn(&n))
	}
	if reserved := model.ReservedCPUs(); reserved.String() != "0,8" || n.Spec.Config.MemoryManagerPolicy != "" {
		t.Errorf("reserved %s, memory manager %q", reserved, n.Spec.Config.MemoryManagerPolicy)
	}
	// Three whole cores are free on NUMA node 0, two on NUMA node 1. The option full-pcpus-only is
	// known.
	for cpus, want := range map[int64]bool{2: true, 3: false, 6: true, 8: false} {
		r := placement.Request{UID: "q", Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: 1000 * cpus}}}
		if v := placement.Admit(s, &r); v.OK() != want {
			t.Errorf("%d CPUs: %v", cpus, v)
		}
	}
}

// TestKoordletsOtherObjects: missing parts are not guessed.
func TestKoordletsOtherObjects(t *testing.T) {
	read := func(o *nrt.NodeResourceTopology) (Node, *placement.State) {
		t.Helper()
		n, err := ReadNodeResourceTopology(o, new(Beside))
		if err != nil {
			t.Fatal(err)
		}
		_, s := stateOf(t, &n)
		return n, s
	}
	if n, _ := read(koordletObject(t, map[string]string{koordletPolicy: `{"policy":"none"}`})); n.Spec.Config.CPUManagerPolicy != "none" || len(n.Report.Snapshot.Pods) != 0 {
		t.Errorf("a kubelet that pins nothing: %+v", n.Report.Snapshot)
	}
	o := koordletObject(t, nil)
	o.Zones = nrt.ZoneList{{Name: "fake-name", Type: "fake-type"}}
	if n, _ := read(o); len(n.Spec.Machine.NUMANodes) != 2 {
		t.Errorf("without zones: %v", n.Spec.Machine)
	}
	n, s := read(koordletObject(t, map[string]string{koordletShared: "", koordletPods: ""}))
	if free := s.FreeCPUs(); free.Len() != 14 {
		t.Errorf("without pools: free %s of %s", free, n.Spec.Machine)
	}
	o = koordletObject(t, nil)
	o.Zones[1].Resources[1].Available.Sub(o.Zones[1].Resources[1].Available)
	if n, _ := read(o); n.Spec.Config.MemoryManagerPolicy != "Static" {
		t.Error("a zone tells that memory is in use, and it does not count")
	}
}

// TestKoordletsObjectIsChecked: each change of a valid object is refused, and the error names the
// field.
func TestKoordletsObjectIsChecked(t *testing.T) {
	for _, c := range []struct{ key, text, want string }{
		{koordletCPUs, `{"detail":[...]}`, "cpu-topology]:"},
		{koordletCPUs, `{}`, `detail: "0": want 1 to 1024 CPUs`},
		{koordletCPUs, strings.Replace(detailOf(), `"id":3`, `"id":2`, 1), `detail[3].id: "2":`},
		{koordletCPUs, strings.Replace(detailOf(), `"id":3`, `"id":4096`, 1), `detail[3].id: "4096":`},
		{koordletCPUs, strings.Replace(detailOf(), `"id":3`, `"id":3.5`, 1), "cpu-topology]:"},
		{koordletCPUs, strings.Replace(detailOf(), `"node":1`, `"node":64`, 1), `detail[4].node: "64":`},
		{koordletCPUs, strings.Replace(detailOf(), `"socket":1`, `"socket":-1`, 1), `detail[4].socket: "-1":`},
		{koordletCPUs, strings.Replace(detailOf(), `"core":4`, `"core":-4`, 1), `detail[4].core: "-4":`},
		{koordletCPUs, strings.Replace(detailOf(), `"node":1`, `"node":0`, 1), `"9 CPUs on NUMA node 0": want 8`},
		{koordletCPUs, strings.ReplaceAll(detailOf(), `"node":1`, `"node":2`), `"0 CPUs on NUMA node 1": want 8`},
		{koordletShared, `{"cpuset":"0"}`, "cpu-shared-pools]:"},
		{koordletShared, `[{"node":0,"cpuset":"1-"}]`, "cpu-shared-pools][0].cpuset:"},
		{koordletShared, `[{"node":0,"cpuset":"1"},{"node":1,"cpuset":"1"}]`, `cpu-shared-pools][1].cpuset: "1": want CPUs of NUMA node 1: 4-7,12-15`},
		{koordletShared, `[{"node":-1,"cpuset":"1"}]`, `cpu-shared-pools][0].node: "-1": want a NUMA node that has CPUs`},
		{koordletShared, `[{"node":2,"cpuset":"1"}]`, `cpu-shared-pools][0].node: "2": want a NUMA node that has CPUs`},
		{koordletPods, `[{"uid":"uid-a","cpu":"4-5"}]`, "pod-cpu-allocs][0].cpuset:"},
		{koordletPods, `[{"uid":"uid-a","cpuset":"1"}]`, "pod-cpu-allocs][0].cpuset:"},
		{koordletPods, `[{"uid":"uid-a","cpuset":"0"}]`, "pod-cpu-allocs][0].cpuset:"},
		{koordletPods, `[{"uid":"uid-a","cpuset":"99"}]`, "pod-cpu-allocs][0].cpuset:"},
		{koordletPods, `[{"uid":"x","cpuset":"4"},{"uid":"y","cpuset":"4"}]`, "pod-cpu-allocs][1].cpuset:"},
		{koordletPods, `[{"uid":"uid-a","cpuset":"4"},{"uid":"uid-a","cpuset":"5"}]`, "pod-cpu-allocs][1].uid:"},
		{koordletPods, `[{"cpuset":"4"}]`, "pod-cpu-allocs][0].uid:"},
		{koordletPods, strings.Repeat(" ", maxKoordletBytes+1), "at most 262144 bytes"},
		{koordletPolicy, `{"policy":"Static"}`, "cpu-manager-policy].policy:"},
		{koordletPolicy, `{"policy":"static","reservedCPUs":"16"}`, "cpu-manager-policy].reservedCPUs:"},
		{koordletPolicy, `{"policy":"static","options":{"x":1}}`, "cpu-manager-policy]:"},
	} {
		_, err := ReadNodeResourceTopology(koordletObject(t, map[string]string{c.key: c.text}), &Beside{Pods: []BoundPod{bound("a", 0)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60s: %v, want an error with %s", c.key, c.text, err, c.want)
		}
	}
}

// FuzzReadKoordlet: the annotations are either read completely or refused.
func FuzzReadKoordlet(f *testing.F) {
	f.Add(detailOf(), poolsText, podsText, staticOf0, true)
	f.Add(`{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}`, `[]`, `[{"uid":"uid-a","cpuset":"0"}]`, `{"policy":"static"}`, false)
	f.Fuzz(func(t *testing.T, cpus, pools, pods, policy string, zones bool) {
		o := koordletObject(t, nil)
		o.Annotations = map[string]string{koordletCPUs: cpus, koordletShared: pools, koordletPods: pods, koordletPolicy: policy}
		if !zones {
			o.Zones = nil
		}
		n, err := ReadNodeResourceTopology(o, &Beside{Pods: []BoundPod{bound("a", 0), bound("b", 0)}})
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
	})
}
