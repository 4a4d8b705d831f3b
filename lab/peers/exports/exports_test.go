package exports

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology/shapes"
)

const static = "cpuManagerPolicy: static\ntopologyManagerPolicy: restricted\ntopologyManagerScope: pod\nreservedSystemCPUs: \"0,32\"\n" +
	"cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n"

// TestKoordlet: Berth's reader of koordlet's object finds the machine and the kubelet in it, also
// if the ids of NUMA nodes have gaps.
func TestKoordlet(t *testing.T) {
	for _, machine := range []string{shapes.XeonX7550, shapes.GPUServer} {
		m := shapes.Machine(machine)
		o, err := Koordlet("n", machine, static)
		if err != nil {
			t.Fatal(err)
		}
		if o.APIVersion != "topology.node.k8s.io/v1alpha1" || len(o.TopologyPolicies) != 1 || o.TopologyPolicies[0] != "RestrictedPodLevel" {
			t.Errorf("%s with %v", o.APIVersion, o.TopologyPolicies)
		}
		n, err := wire.ReadNodeResourceTopology(o, &wire.Beside{})
		if err != nil {
			t.Fatal(err)
		}
		read := n.Spec.Machine
		if read.Online != m.Online || len(read.NUMANodes) != len(m.NUMANodes) || len(read.Cores) != len(m.Cores) {
			t.Fatalf("%s of %s", read, m)
		}
		for i := range m.NUMANodes {
			if read.NUMANodes[i].ID != m.NUMANodes[i].ID || read.NUMANodes[i].CPUs != m.NUMANodes[i].CPUs {
				t.Errorf("NUMA node %d: %v, want %v", i, read.NUMANodes[i], m.NUMANodes[i])
			}
		}
		c := &n.Spec.Config
		if c.ReservedSystemCPUs != "0,32" || c.CPUManagerPolicy != "static" || c.CPUManagerPolicyOptions["full-pcpus-only"] != "true" || c.TopologyManagerPolicy != "restricted" {
			t.Errorf("the kubelet: %+v", c)
		}
	}
}

func TestPolicy(t *testing.T) {
	for config, want := range map[string]string{
		static: "Restricted", "": "", "topologyManagerPolicy: none": "", "topologyManagerPolicy: single-numa-node": "SingleNUMANode",
		"topologyManagerPolicy: best-effort": "BestEffort",
	} {
		if got, err := Policy(config); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", config, got, err, want)
		}
	}
}

// TestWithMemory: only a NodeResourceTopology gets memory, and only if it has none.
func TestWithMemory(t *testing.T) {
	m := shapes.Machine("package:2 numa:1 core:2 pu:1 mem:8Gi huge:2Mi=512")
	var got []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) }))
	defer server.Close()
	client := &http.Client{Transport: WithMemory(m)(http.DefaultTransport)}
	send := func(path, body string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		var o map[string]any
		if err := json.Unmarshal(got, &o); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		return o
	}
	const path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/n"
	cpu := `{"name":"cpu","capacity":"2","allocatable":"2","available":"1"}`
	without := `{"zones":[{"name":"node-0","type":"Node","resources":[` + cpu + `]},{"name":"node-1","type":"Node","resources":[` + cpu + `]}]}`
	for _, zone := range send(path, without)["zones"].([]any) {
		amounts := map[string]any{}
		for _, r := range zone.(map[string]any)["resources"].([]any) {
			amounts[r.(map[string]any)["name"].(string)] = r.(map[string]any)["available"]
		}
		if amounts["cpu"] != "1" || amounts["memory"] != "7Gi" || amounts["hugepages-2Mi"] != "1Gi" {
			t.Errorf("available: %v", amounts)
		}
	}
	with := `{"zones":[{"name":"node-0","type":"Node","resources":[{"name":"memory","capacity":"2","allocatable":"2","available":"1"}]}]}`
	if send(path, with); string(got) != with {
		t.Errorf("with memory: %s", got)
	}
	if send("/apis/berth.dev/v1alpha1/nodetopologies/n", without); string(got) != without {
		t.Errorf("another object: %s", got)
	}
}
