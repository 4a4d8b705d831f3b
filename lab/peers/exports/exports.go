// Package exports writes objects about a hollow node that the node agents of other schedulers would
// write. Berth's own agent does not write these objects.
package exports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/topology"
)

// zones are the NUMA nodes of a machine with everything available.
func zones(m *topology.Machine, resources func(*topology.NUMANode) nrt.ResourceInfoList) (out nrt.ZoneList) {
	for i := range m.NUMANodes {
		node := &m.NUMANodes[i]
		out = append(out, nrt.Zone{Name: fmt.Sprint("node-", node.ID), Type: "Node", Resources: resources(node)})
	}
	return out
}

func whole(name string, n uint64, format resource.Format) nrt.ResourceInfo {
	q := *resource.NewQuantity(int64(n), format)
	return nrt.ResourceInfo{Name: name, Capacity: q, Allocatable: q, Available: q}
}

// memory returns the memory of a NUMA node without huge pages, and its huge pages.
func memory(node *topology.NUMANode) (out nrt.ResourceInfoList) {
	left := node.MemoryBytes
	for _, h := range node.HugePages {
		out = append(out, whole("hugepages-"+resource.NewQuantity(int64(h.PageBytes), resource.BinarySI).String(), h.PageBytes*h.Count, resource.BinarySI))
		left -= h.PageBytes * h.Count
	}
	return append(out, whole("memory", left, resource.BinarySI))
}

// policies maps the kubelet's policies to their names in a NodeResourceTopology, without the scope.
var policies = map[string]string{
	kubelet.BestEffortTopologyManagerPolicy: "BestEffort", kubelet.RestrictedTopologyManagerPolicy: "Restricted",
	kubelet.SingleNumaNodeTopologyManagerPolicy: "SingleNUMANode",
}

// KoordinatorPolicy is the label of a Node that tells Koordinator's scheduler the kubelet's policy.
const KoordinatorPolicy = "node.koordinator.sh/numa-topology-policy"

// Policy returns the value of the label KoordinatorPolicy; "" for none.
func Policy(kubeletConfig string) (string, error) {
	var config kubelet.KubeletConfiguration
	err := yaml.Unmarshal([]byte(kubeletConfig), &config)
	return policies[config.TopologyManagerPolicy], err
}

// koordletCPU is a CPU of the annotation cpu-topology.
type koordletCPU struct {
	ID     topology.CPUID     `json:"id"`
	Core   topology.CoreID    `json:"core"`
	Socket topology.PackageID `json:"socket"`
	Node   topology.NUMAID    `json:"node"`
}

// koordletPolicy is the annotation cpu-manager-policy.
type koordletPolicy struct {
	Policy   string            `json:"policy,omitempty"`
	Options  map[string]string `json:"options,omitempty"`
	Reserved string            `json:"reservedCPUs,omitempty"`
}

// Koordlet writes the NodeResourceTopology that koordlet writes about a node without pods
// (koordlet, states_noderesourcetopology.go), in the version that Koordinator reads.
func Koordlet(name, machine, kubeletConfig string) (*nrt.NodeResourceTopology, error) {
	m, err := topology.Parse(machine)
	if err != nil {
		return nil, err
	}
	var config kubelet.KubeletConfiguration
	if err := yaml.Unmarshal([]byte(kubeletConfig), &config); err != nil {
		return nil, err
	}
	policy := "None"
	if p := policies[config.TopologyManagerPolicy]; p != "" {
		policy = p + "ContainerLevel"
		if config.TopologyManagerScope == kubelet.PodTopologyManagerScope {
			policy = p + "PodLevel"
		}
	}
	annotations := map[string]string{}
	for key, value := range map[string]any{
		"node.koordinator.sh/cpu-topology":          map[string]any{"detail": cpus(m)},
		"kubelet.koordinator.sh/cpu-manager-policy": koordletPolicy{config.CPUManagerPolicy, config.CPUManagerPolicyOptions, config.ReservedSystemCPUs},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations[key] = string(text)
	}
	return &nrt.NodeResourceTopology{
		TypeMeta:         metav1.TypeMeta{APIVersion: nrt.GroupVersion.Group + "/v1alpha1", Kind: "NodeResourceTopology"},
		ObjectMeta:       metav1.ObjectMeta{Name: name, Annotations: annotations},
		TopologyPolicies: []string{policy},
		Zones: zones(m, func(node *topology.NUMANode) nrt.ResourceInfoList {
			return append(memory(node), whole("cpu", uint64(node.CPUs.Len()), resource.DecimalSI))
		}),
	}, nil
}

func cpus(m *topology.Machine) (out []koordletCPU) {
	for id := range m.Online.All() {
		cpu := koordletCPU{ID: id}
		for i := range m.Cores {
			if m.Cores[i].CPUs.Has(id) {
				cpu.Core = m.Cores[i].ID
			}
		}
		for i := range m.Packages {
			if m.Packages[i].CPUs.Has(id) {
				cpu.Socket = m.Packages[i].ID
			}
		}
		for i := range m.NUMANodes {
			if m.NUMANodes[i].CPUs.Has(id) {
				cpu.Node = m.NUMANodes[i].ID
			}
		}
		out = append(out, cpu)
	}
	return out
}

// AddMemory adds the memory of a machine to the zones of a NodeResourceTopology in JSON that have
// none.
func AddMemory(object []byte, m *topology.Machine) ([]byte, error) {
	var o nrt.NodeResourceTopology
	if err := json.Unmarshal(object, &o); err != nil {
		return nil, err
	}
	for i, with := range zones(m, memory) {
		if i >= len(o.Zones) || o.Zones[i].Name != with.Name {
			return nil, fmt.Errorf("zones of %s: want %s as number %d", o.Name, with.Name, i)
		}
		for _, r := range o.Zones[i].Resources {
			if r.Name == "memory" {
				return object, nil
			}
		}
		o.Zones[i].Resources = append(o.Zones[i].Resources, with.Resources...)
	}
	return json.Marshal(&o)
}

// WithMemory adds the memory of a machine to each NodeResourceTopology that is sent without memory.
// Agents report memory only if the kubelet pins it. NodeResourceTopologyMatch refuses each pod that
// asks for memory on a single-numa-node node whose zones have no memory.
func WithMemory(m *topology.Machine) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &memoryAdder{m, next} }
}

type memoryAdder struct {
	machine *topology.Machine
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *memoryAdder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/"+nrt.NodeResourceTopologies.Resource+"/") {
		return a.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = r.Body.Close()
	}
	if err == nil {
		body, err = AddMemory(body, a.machine)
	}
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return a.next.RoundTrip(r)
}
